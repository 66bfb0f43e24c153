//! Families of rows that are made when first used: claims, dead letters, producers, prepared
//! batches.
//!
//! A store without any of these pays for none: each family costs memory, descriptors and a part
//! of every open, and a process may have hundreds of stores. Once made, a family stays.
//!
//! Concurrency: one lock, taken to make a family and to find one; whoever needs it often keeps
//! the handle. Failure: a family that could not be made is made by the next call.

use std::sync::Arc;

use crate::engine::{Engine, Family, Kind};
use crate::error::Result;
use crate::sync::RwLock;

use super::Index;
use super::names::BOOKS;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Book {
    /// Ids taken for work that takes long.
    Claims,
    /// Messages that were given up, with the reason.
    Dead,
    /// High-water marks of producers.
    Producers,
    /// Batches that wait for another system's decision.
    Prepared,
}

/// Those that a store has.
#[derive(Default)]
pub(super) struct Books {
    made: RwLock<[Option<Arc<Family>>; BOOKS.len()]>,
}

impl Books {
    /// Those among the families that were found.
    pub(super) fn found(rows: &[Arc<Family>]) -> Books {
        let find = |name: &str| rows.iter().find(|f| f.name() == name).cloned();
        Books {
            made: RwLock::new(BOOKS.map(find)),
        }
    }

    fn get(&self, book: Book) -> Option<Arc<Family>> {
        self.made.read()[book as usize].clone()
    }

    fn make(&self, book: Book, engine: &Engine) -> Result<Arc<Family>> {
        let mut made = self.made.write();
        if let Some(family) = &made[book as usize] {
            return Ok(Arc::clone(family));
        }
        let family = engine.create(BOOKS[book as usize], Kind::Rows, "")?;
        made[book as usize] = Some(Arc::clone(&family));
        Ok(family)
    }
}

impl Index {
    /// A family of rows, if the store has it.
    pub(crate) fn book(&self, book: Book) -> Option<Arc<Family>> {
        self.books.get(book)
    }

    /// A family of rows, made if the store has none yet.
    ///
    /// # Errors
    /// Those of making a family; it may be tried again.
    pub(crate) fn make_book(&self, book: Book) -> Result<Arc<Family>> {
        match self.book(book) {
            Some(family) => Ok(family),
            None => self.books.make(book, &self.engine),
        }
    }
}
