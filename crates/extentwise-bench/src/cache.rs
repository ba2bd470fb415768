//! A cache of folios without bytes, to look at what lies around them.

use std::ops::Range;

use extentwise_engine::{
    BlockSize, Config, Engine, FileId, FileOffset, FileRange, HandleId, Identity, LenBytes, Memory,
    NoMemory, TicketState,
};

use crate::pass::BLOCK;

const FILE: FileId = FileId(1);

/// Folios without bytes: a million of them fit anywhere.
pub(crate) struct NoBytes;

impl Memory for NoBytes {
    type Bytes = ();

    fn allocate(&mut self, _: usize) -> Result<(), NoMemory> {
        Ok(())
    }

    fn zero(&mut self, (): &mut (), _: Range<usize>) {}
}

/// A cache of one file, in folios of one size.
pub(crate) struct Cache {
    engine: Engine<NoBytes, Identity>,
    handle: HandleId,
    folio_bytes: u64,
    pub(crate) folios: u64,
}

impl Cache {
    /// A cache with so many folios of this size, as reading backwards makes them.
    pub(crate) fn new(folios: u64, folio_bytes: u64) -> Self {
        let mut cache = Self::empty(folios, folio_bytes);
        for nth in (0..folios).rev() {
            cache.read(nth);
        }
        assert_eq!(cache.engine.counts().folios, folios);
        let bytes = folios * folio_bytes;
        assert_eq!(cache.engine.cached_bytes().get(), bytes);
        cache
    }

    fn empty(folios: u64, folio_bytes: u64) -> Self {
        let mut config = Config::new(BlockSize::new(BLOCK).expect("a power of two"))
            .with_cache_bytes(LenBytes::new(4 * folios * folio_bytes));
        // Regions of the index are as large as in an ordinary cache.
        config.folio_bytes_max = LenBytes::new(folio_bytes.max(2 << 20));
        let mut mapping = Identity::new();
        mapping.add(FILE, FileOffset::ZERO);
        let mut engine = Engine::new(config, NoBytes, mapping).expect("a sound configuration");
        let handle = engine.open(FILE, FileOffset::ZERO).expect("opened");
        let size = FileOffset::new(folios * folio_bytes);
        engine.resize(handle, size).expect("resized");
        Self {
            engine,
            handle,
            folio_bytes,
            folios,
        }
    }

    fn range(&self, nth: u64) -> FileRange {
        let start = FileOffset::new(nth * self.folio_bytes);
        FileRange::at(start, LenBytes::new(self.folio_bytes)).expect("fits")
    }

    /// Looks at a folio.
    pub(crate) fn read(&mut self, nth: u64) {
        let ticket = self.engine.prepare_read(self.handle, self.range(nth));
        let ticket = ticket.expect("not refused").expect("below the size");
        assert_eq!(self.engine.read_state(&ticket), TicketState::Ready);
        self.engine.end_read(ticket);
    }

    /// Writes all of a folio.
    pub(crate) fn write(&mut self, nth: u64) {
        let range = self.range(nth);
        let ticket = self.engine.prepare_write(self.handle, range);
        let ticket = ticket.expect("not refused");
        assert_eq!(self.engine.write_state(&ticket), TicketState::Ready);
        let stands = self.engine.commit_write(ticket, range.len());
        assert_eq!(stands, Ok(range.len()));
    }
}
