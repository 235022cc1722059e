//! A TCP connection for each transaction as a path, so that `rr` measures it with the same loop: the round's time holds
//! connecting, request, response and the peer's close.

use net::{Path, PathError, Received, TransactionClient};

/// Sends nothing until the answer is waited for; then makes the whole transaction.
pub(crate) struct ConnectEach<'a> {
    client: TransactionClient<'a>,
    request: Vec<u8>,
}

impl<'a> ConnectEach<'a> {
    /// For requests of exactly so many bytes.
    pub(crate) fn new(client: TransactionClient<'a>, request_bytes: usize) -> Self {
        Self { client, request: vec![0; request_bytes] }
    }
}

impl Path for ConnectEach<'_> {
    #[inline]
    fn send(&mut self, message: &[u8], _more: bool) -> Result<(), PathError> {
        let bytes = message.len().min(self.request.len());
        self.request[..bytes].copy_from_slice(&message[..bytes]);
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) -> Result<Received, PathError> {
        self.client.transact(&self.request, buffer)
    }

    fn drain(&mut self, _scratch: &mut [u8]) -> Result<u64, PathError> {
        Ok(0)
    }

    fn foreign(&self) -> u64 {
        0
    }
}
