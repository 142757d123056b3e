//! The account of a connection's newest call: calls of one caller on one connection find it without
//! a search.

use std::sync::{Arc, Mutex};

use super::book::{Account, Accounts};
use crate::service::code::ApiError;
use crate::service::edge::{Kind, Owner, Share};
use crate::sync::lock;

/// The account, and the connection that counts for it.
#[derive(Debug, Default)]
pub struct Slot(Mutex<Option<Counted>>);

#[derive(Debug)]
struct Counted {
    account: Arc<Account>,
    _connection: Option<Share>,
}

impl Slot {
    /// Returns the account of a caller. The connection counts for it from now on.
    ///
    /// # Errors
    /// If the principal has too many connections.
    pub fn account(&self, owner: &Owner, all: &Accounts) -> Result<Arc<Account>, ApiError> {
        let mut counted = lock(&self.0);
        if let Some(known) = counted.as_ref().filter(|known| known.account.owner() == owner) {
            return Ok(known.account.clone());
        }
        let account = all.find(owner);
        let mut connection = account.principal().map(|holder| Share::of(holder, Kind::Connection));
        if let Some(connection) = &mut connection {
            let max = all.limits().connections_max;
            connection.grow(max, max).map_err(|_| account.too_many_connections())?;
        }
        *counted = Some(Counted { account: account.clone(), _connection: connection });
        Ok(account)
    }
}
