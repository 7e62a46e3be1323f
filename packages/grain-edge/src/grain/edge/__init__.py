"""How the parts of Grain find each other and talk."""
