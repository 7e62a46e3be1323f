"""The real hub, worker sessions and mission sessions in virtual time, with everything going wrong.

`clock` is the event loop, `wire` the network, `heads` and `people` are the processes, `world` puts
them together and breaks them, `laws` is what must hold after every step, `bugs` are deliberate
mistakes which that has to find. ``python -m simulation --seed N`` replays one seed and tells what
happened.
"""
