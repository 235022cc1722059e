//! The initiator's loops: ping-pong, request/response, ICMP echo.
