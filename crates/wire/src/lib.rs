//! Framing, the agent's requests, and the control session as a sans-IO machine.
