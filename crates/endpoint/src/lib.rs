//! The server and its reflectors: the attack surface.
