//! A stage for one file: the engine, a map that counts, a device of bytes. Tests
//! say when the device answers, and how.

// Each test binary uses its own part of this.
#![allow(dead_code)]

pub(crate) mod map;

use extentwise_engine::{
    BlockSize, Config, DiskByte, Effect, Engine, ErrorClass, FileId, FileOffset, FileRange,
    HandleId, HeapMemory, IoId, LenBytes, Loss, Refusal, SyncId, TicketState, WriteTicket,
};

pub(crate) use map::CountingMap;

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const KIB: u64 = 1024;
pub(crate) const FILE: FileId = FileId(1);

pub(crate) type Cache = Engine<HeapMemory, CountingMap>;

/// The engine with one file open, and its device.
pub(crate) struct Stage {
    pub(crate) engine: Cache,
    pub(crate) handle: HandleId,
    /// The bytes of the device.
    pub(crate) disk: Vec<u8>,
    /// Every effect so far, in order.
    pub(crate) seen: Vec<Effect>,
}

pub(crate) fn config() -> Config {
    Config::new(BlockSize::new(BLOCK).unwrap())
}

/// The defaults, with folios of at most this many bytes.
pub(crate) fn config_of_folios(bytes: u64) -> Config {
    Config {
        folio_bytes_max: LenBytes::new(bytes),
        ..config()
    }
}

pub(crate) fn at(offset: u64) -> FileOffset {
    FileOffset::new(offset)
}

pub(crate) fn range(start: u64, end: u64) -> FileRange {
    FileRange::new(at(start), at(end)).unwrap()
}

pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// `len` bytes that differ from their neighbours.
pub(crate) fn pattern(len: u64, seed: u8) -> Vec<u8> {
    let bytes = (0..len).map(|nth| u8::try_from(nth % 251).unwrap().wrapping_add(seed) | 1);
    bytes.collect()
}

/// Compares without printing all bytes.
#[track_caller]
pub(crate) fn assert_same(found: &[u8], expected: &[u8]) {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "the first byte that differs");
    assert_eq!(found.len(), expected.len());
}

impl Stage {
    /// An empty file on an empty device.
    pub(crate) fn new(config: Config) -> Self {
        Self::with(config, CountingMap::with_blocks(1 << 20))
    }

    /// An empty file over this map.
    pub(crate) fn with(config: Config, map: CountingMap) -> Self {
        let mut engine = Engine::new(config, HeapMemory, map).unwrap();
        let handle = engine.open(FILE, FileOffset::ZERO).unwrap();
        Self {
            engine,
            handle,
            disk: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// A file of `size` bytes that lies at the start of a device with `disk` in
    /// it, which may hold more than the file.
    pub(crate) fn holding(config: Config, size: u64, disk: Vec<u8>) -> Self {
        let mut map = CountingMap::with_blocks(1 << 20);
        map.place(FILE, 0, 0, size.div_ceil(BLOCK));
        let mut engine = Engine::new(config, HeapMemory, map).unwrap();
        let handle = engine.open(FILE, at(size)).unwrap();
        Self {
            engine,
            handle,
            disk,
            seen: Vec::new(),
        }
    }

    /// Takes what the engine wants done now, without doing it.
    pub(crate) fn take(&mut self) -> Vec<Effect> {
        let mut taken = Vec::new();
        while let Some(effect) = self.engine.next_effect() {
            taken.push(effect);
        }
        self.seen.extend(&taken);
        taken
    }

    /// Carries one effect out.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Read { io, disk, .. } => {
                let (bytes, place) = self.engine.read_target(io).unwrap();
                let start = index(disk.get());
                for (nth, into) in bytes[place].iter_mut().enumerate() {
                    *into = self.disk.get(start + nth).copied().unwrap_or(0);
                }
                self.engine.complete(io, Ok(()));
            }
            Effect::Write { io, disk, .. } => {
                let bytes = self.bytes_of(io);
                self.put(disk, &bytes);
                self.engine.complete(io, Ok(()));
            }
            _ => self.answer(effect, Ok(())),
        }
    }

    /// Carries out effects in their order.
    pub(crate) fn carry_out_all(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.carry_out(*effect);
        }
    }

    /// One round: what the engine wants done now, done.
    pub(crate) fn take_and_carry_out(&mut self) -> Vec<Effect> {
        let effects = self.take();
        self.carry_out_all(&effects);
        effects
    }

    /// Answers an effect without moving a byte; those that only tell need none.
    pub(crate) fn answer(&mut self, effect: Effect, result: Result<(), ErrorClass>) {
        if let Some(io) = io_of(effect) {
            self.engine.complete(io, result);
        }
    }

    /// Carries out what there is and what follows from it.
    pub(crate) fn run(&mut self) {
        self.run_with(Self::carry_out);
    }

    /// As [`run`](Self::run), on a device that refuses to write.
    pub(crate) fn run_refusing(&mut self, class: ErrorClass) {
        self.run_with(|stage, effect| match effect {
            Effect::Write { .. } => stage.answer(effect, Err(class)),
            _ => stage.carry_out(effect),
        });
    }

    fn run_with(&mut self, mut act: impl FnMut(&mut Self, Effect)) {
        loop {
            let effects = self.take();
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                act(self, effect);
            }
        }
        self.engine.check().unwrap();
    }

    /// The bytes of a bio, as the device would get them now.
    pub(crate) fn bytes_of(&self, io: IoId) -> Vec<u8> {
        let mut all = Vec::new();
        for (bytes, place) in self.engine.write_source(io) {
            all.extend_from_slice(&bytes[place]);
        }
        all
    }

    fn put(&mut self, disk: DiskByte, bytes: &[u8]) {
        let start = index(disk.get());
        if self.disk.len() < start + bytes.len() {
            self.disk.resize(start + bytes.len(), 0);
        }
        self.disk[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Prepares a write and waits until its bytes can be copied.
    pub(crate) fn prepare(&mut self, start: u64, len: u64) -> Result<WriteTicket, Refusal> {
        let asked = range(start, start + len);
        let ticket = self.engine.prepare_write(self.handle, asked)?;
        loop {
            match self.engine.write_state(&ticket) {
                TicketState::Ready => return Ok(ticket),
                TicketState::Failed(class) => return Err(Refusal::Failed(class)),
                TicketState::Pending => {
                    let done = self.take_and_carry_out();
                    assert!(!done.is_empty(), "nothing to wait for");
                }
            }
        }
    }

    /// Copies `bytes` to where a ready ticket points.
    pub(crate) fn copy(&mut self, ticket: &WriteTicket, bytes: &[u8]) {
        let (memory, place) = self.engine.write_target(ticket).unwrap();
        memory[place][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes all of `bytes`, or as much as is not refused.
    pub(crate) fn try_write(&mut self, start: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let mut done = 0;
        while done < bytes.len() {
            let left = (bytes.len() - done) as u64;
            let ticket = self.prepare(start + done as u64, left)?;
            let len = ticket.range().len();
            self.copy(&ticket, &bytes[done..done + index(len.get())]);
            let committed = self.engine.commit_write(ticket, len)?;
            assert_eq!(committed, len);
            done += index(len.get());
        }
        self.engine.check().unwrap();
        Ok(())
    }

    #[track_caller]
    pub(crate) fn write(&mut self, start: u64, bytes: &[u8]) {
        self.try_write(start, bytes).unwrap();
    }

    /// Reads up to `len` bytes; fewer at the end of the file.
    pub(crate) fn read(&mut self, start: u64, len: u64) -> Vec<u8> {
        let mut all = Vec::new();
        while (all.len() as u64) < len {
            let from = start + all.len() as u64;
            let asked = FileRange::clamped(at(from), at(start.saturating_add(len)));
            let Some(ticket) = self.engine.prepare_read(self.handle, asked).unwrap() else {
                break;
            };
            while self.engine.read_state(&ticket) != TicketState::Ready {
                let done = self.take_and_carry_out();
                assert!(!done.is_empty(), "nothing to wait for");
            }
            let (bytes, place) = self.engine.read_source(&ticket).unwrap();
            all.extend_from_slice(&bytes[place]);
            self.engine.end_read(ticket);
        }
        all
    }

    /// Begins a sync; its end shows in [`sync_result`](Self::sync_result).
    pub(crate) fn begin_sync(&mut self) -> SyncId {
        self.engine.sync(self.handle).unwrap()
    }

    /// How a sync ended, if it did.
    pub(crate) fn sync_result(&self, id: SyncId) -> Option<Result<(), ErrorClass>> {
        self.seen.iter().find_map(|effect| match effect {
            Effect::SyncEnded { sync, result } if *sync == id => Some(*result),
            _ => None,
        })
    }

    pub(crate) fn sync(&mut self) -> Result<(), ErrorClass> {
        let sync = self.begin_sync();
        self.run();
        self.sync_result(sync).expect("the sync ends")
    }

    /// A sync on a device that refuses to write.
    pub(crate) fn sync_refused(&mut self, class: ErrorClass) -> Result<(), ErrorClass> {
        let sync = self.begin_sync();
        self.run_refusing(class);
        self.sync_result(sync).expect("the sync ends")
    }

    /// Drops what can be read again, so that the next read asks the device.
    pub(crate) fn drop_caches(&mut self) {
        self.engine.drop_clean();
        self.engine.check().unwrap();
    }

    pub(crate) fn dirty(&self) -> u64 {
        self.engine.dirty_bytes().get()
    }

    pub(crate) fn size(&self) -> u64 {
        self.engine.size(self.handle).unwrap().get()
    }

    pub(crate) fn recorded(&self) -> u64 {
        self.engine.recorded_size(self.handle).unwrap().get()
    }

    /// What is told to be lost so far.
    pub(crate) fn lost(&self) -> Vec<(FileRange, Loss)> {
        let lost = self.seen.iter().filter_map(|effect| match effect {
            Effect::Lost { range, why, .. } => Some((*range, *why)),
            _ => None,
        });
        lost.collect()
    }

    /// The writes seen so far: place, length, bytes that are the file's.
    pub(crate) fn writes(&self) -> Vec<(u64, u64, u64)> {
        writes_of(&self.seen)
    }
}

/// Place, length and valid length of the writes among `effects`.
pub(crate) fn writes_of(effects: &[Effect]) -> Vec<(u64, u64, u64)> {
    let writes = effects.iter().filter_map(|effect| match effect {
        Effect::Write {
            disk,
            len,
            valid_len,
            ..
        } => Some((disk.get(), len.get(), valid_len.get())),
        _ => None,
    });
    writes.collect()
}

/// The number to answer an effect by, of those that want an answer.
pub(crate) fn io_of(effect: Effect) -> Option<IoId> {
    match effect {
        Effect::Read { io, .. }
        | Effect::Write { io, .. }
        | Effect::Flush { io, .. }
        | Effect::Persist { io, .. } => Some(io),
        Effect::SyncEnded { .. } | Effect::Wake | Effect::Lost { .. } => None,
    }
}
