def mpi_prefix() -> list[str]:
    return []
