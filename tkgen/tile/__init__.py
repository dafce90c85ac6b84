"""The tile program: what the agents of a block do, in order, as data that is proven, printed and executed."""
