//! Locks that stay usable after a panic, and the text of a panic.
//!
//! A lock of the standard library is poisoned when its holder panics. What these locks guard is
//! valid at each point where a panic can happen, so the next holder continues. Where that is not
//! so, as in the indexes of `watch`, the next holder panics too.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for reading.
pub fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks for writing.
pub fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic of an unknown type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_holder_is_survived() {
        let (mutex, shared) = (Mutex::new(1), RwLock::new(1));
        let panicked = std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let _guards = (lock(&mutex), write(&shared));
                panic!("while both are held");
            });
            holder.join().is_err()
        });
        assert!(panicked && mutex.is_poisoned() && shared.is_poisoned());
        *lock(&mutex) += 1;
        *write(&shared) += 1;
        assert_eq!((*lock(&mutex), *read(&shared)), (2, 2));
    }
}
