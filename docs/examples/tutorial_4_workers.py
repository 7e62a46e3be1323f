"""Where tasks run: start workers with `grain up -n 2`."""

from grain import GVAR
from grain.delayed import delayed, run
from grain.resource import Node


@delayed(nout=2)  # the function has 2 return values
async def hostname():
    import trio

    cp = await trio.run_process(["hostname"], capture_stdout=True)
    return str(GVAR.res), cp.stdout.decode()


async def main():
    summary = ""
    for i in range(4):
        res, hn = (hostname @ Node(N=16, M=10))()  # Node is Cores & Memory
        summary += f"Job {i} with " + res + " is executed on a machine with hostname " + hn
    print("Waiting for calculation to start ...")
    print(await summary)


run(main)
