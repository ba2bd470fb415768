//! A store, what it must say, and what is on its way.

use std::collections::BTreeMap;

use extentwise_core::geometry::{BlockSize, DiskByte, FileOffset, FileRange, LenBytes};
use extentwise_core::ordered::{
    IoOutcome, NewOrdered, OrderedId, OrderedKind, OrderedTable, TreeStore,
};
use extentwise_device::{DeviceGeometry, ErrorClass, read_exact, write_all};
use extentwise_engine::{ExtentKind, FileId, Mapping};
use extentwise_thin::{ThinError, ThinStore};

use super::{BLOCKS, CALLS, CELLS, FILES, Failure, How, Op};
use crate::device::{Fate, Fault, FaultDevice, FaultPlan, FaultRule, VolatileDevice, When};
use crate::seed;

const BLOCK: u64 = BlockSize::MIN.bytes();
/// The file that takes space away.
const FILLER: FileId = FileId(u64::MAX);
/// Images looked at when a case ends.
const IMAGES: usize = 6;

/// What a block of a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Hole,
    Unwritten,
    Data(u64),
}

/// What the store must say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    files: BTreeMap<FileId, (u64, Vec<Cell>)>,
}

/// Data on its way to the device.
struct Flight {
    file: FileId,
    /// Its file was removed meanwhile.
    orphan: bool,
    /// Its only extent is this one.
    table: OrderedTable<TreeStore>,
    id: OrderedId,
    kind: OrderedKind,
    first: u64,
    /// By cell; `None` where the place was taken away.
    tokens: Vec<Option<u64>>,
    /// Cells that were not cut off.
    kept: u64,
}

pub(super) struct Session {
    device: FaultDevice<VolatileDevice>,
    store: ThinStore,
    now: Model,
    durable: Model,
    /// What a crash may show instead.
    doubted: Option<Model>,
    generation: u64,
    promised: BTreeMap<FileId, Vec<bool>>,
    flights: Vec<Flight>,
    token: u64,
}

impl Session {
    /// A store of which a file holds `filler` blocks, so that space is short.
    pub(super) fn new(filler: u64) -> Self {
        let volatile = VolatileDevice::new(geometry());
        let device = FaultDevice::new(volatile, FaultPlan::new());
        let store = ThinStore::format(&device, BlockSize::MIN);
        let mut store = store.expect("a device that is large enough");
        store.create(FILLER).expect("an empty store has room");
        let done = store.preallocate(FILLER, range(FILLER, 0, filler));
        done.expect("the filler leaves some room");
        store.persist(&device).expect("nothing fails");
        let mut now = Model::default();
        let mut cells = vec![Cell::Unwritten; filler as usize];
        cells.resize(BLOCKS as usize, Cell::Hole);
        now.files.insert(FILLER, (0, cells));
        let mut session = Self {
            generation: store.generation(),
            device,
            store,
            durable: now.clone(),
            now,
            doubted: None,
            promised: BTreeMap::new(),
            flights: Vec::new(),
            token: 0,
        };
        for id in 0..FILES {
            session.apply(Op::Create(id));
        }
        session
    }

    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Create(id) => self.create(FileId(id)),
            Op::Remove(id) => self.remove(FileId(id)),
            Op::Reserve(id, start, end) => {
                // No space is an answer too.
                let _ = self.reserve(FileId(id), start, end);
            }
            Op::Unreserve(id, start, end) => {
                let id = FileId(id);
                self.store.unreserve(id, range(id, start, end));
                self.mark_promised(id, start, end, false);
            }
            Op::Allocate(id, start, end) => self.allocate(FileId(id), start, end),
            Op::AllocatePromised(id, nth, len) => {
                if let Some((start, end)) = self.promised_run(FileId(id), nth, len) {
                    self.allocate(FileId(id), start, end);
                }
            }
            Op::Write(id, start, end) => self.write(FileId(id), start, end),
            Op::Split(index, at) => self.split(index, at),
            Op::Truncate(index, at) => self.truncate(index, at),
            Op::Complete(index, how) => self.complete(index, how),
            Op::Punch(id, start, end) => self.punch(FileId(id), start, end),
            Op::Preallocate(id, start, end) => self.preallocate(FileId(id), start, end),
            Op::SetSize(id, size) => {
                let set = self.store.set_size(FileId(id), FileOffset::new(size));
                match self.now.files.get_mut(&FileId(id)) {
                    Some((old, _)) => {
                        assert_eq!(set, Ok(()));
                        *old = size;
                    }
                    None => assert_eq!(set, Err(ErrorClass::Gone)),
                }
            }
            Op::Persist => self.persist(FaultPlan::new()),
            Op::PersistFailing(call, failure) => {
                let fault = match failure {
                    Failure::Error => Fault::Error(ErrorClass::Io),
                    Failure::Short => Fault::Short,
                    Failure::Full => Fault::Full,
                    Failure::Torn => Fault::Torn,
                };
                let plan = if call < CALLS {
                    FaultRule::new(When::Nth(call), fault).into()
                } else {
                    let rule = FaultRule::new(When::Nth(0), fault);
                    let slots = [0, BlockSize::MAX.bytes()];
                    let slots = slots.map(|at| rule.within(DiskByte::new(at), LenBytes::new(1)));
                    slots.into_iter().fold(FaultPlan::new(), FaultPlan::with)
                };
                self.persist(plan);
            }
            Op::Crash(seed) => self.crash(seed),
        }
        self.check();
    }

    /// The store holds what the model says, and every crash shows what it may.
    pub(super) fn end(mut self) {
        compare(&mut self.store, self.device.inner(), &self.now);
        let images = self.device.inner().crash_images(2, IMAGES, self.token);
        for crashed in images {
            let device = VolatileDevice::from_image(geometry(), crashed.image);
            let store = ThinStore::open(&device).expect("a crash leaves a store");
            self.compare_crashed(store, &device);
        }
    }

    fn check(&self) {
        if let Err(error) = self.store.check() {
            panic!("{error}");
        }
    }

    fn create(&mut self, id: FileId) {
        let known = self.now.files.contains_key(&id);
        match self.store.create(id) {
            Ok(()) => {
                assert!(!known, "{id} exists");
                let cells = vec![Cell::Hole; CELLS as usize];
                self.now.files.insert(id, (0, cells));
                self.promised.insert(id, vec![false; CELLS as usize]);
            }
            Err(ThinError::Exists(named)) => assert!(known && named == id),
            Err(ThinError::NoSpace { .. }) => assert!(!known),
            Err(error) => panic!("{error}"),
        }
    }

    fn remove(&mut self, id: FileId) {
        let removed = self.store.remove(id);
        assert_eq!(removed.is_ok(), self.now.files.remove(&id).is_some());
        self.promised.remove(&id);
        for flight in self.flights.iter_mut().filter(|flight| flight.file == id) {
            flight.orphan = true;
        }
    }

    fn reserve(&mut self, id: FileId, start: u64, end: u64) -> Result<(), ErrorClass> {
        let reserved = self.store.reserve(id, range(id, start, end));
        match (&reserved, self.now.files.contains_key(&id)) {
            (Ok(()), true) => self.mark_promised(id, start, end, true),
            (Err(ErrorClass::NoSpace), true) | (Err(ErrorClass::Gone), false) => {}
            _ => panic!("reserve answers {reserved:?}"),
        }
        reserved
    }

    fn mark_promised(&mut self, id: FileId, start: u64, end: u64, now: bool) {
        if let Some(promised) = self.promised.get_mut(&id) {
            promised[start as usize..end as usize].fill(now);
        }
    }

    fn allocate(&mut self, id: FileId, start: u64, end: u64) {
        if self.is_flying(id, start, end) {
            // The engine waits for what is on its way.
            return;
        }
        let allocated = self.store.allocate(id, range(id, start, end));
        let Some(promised) = self.promised.get(&id) else {
            return assert_eq!(allocated, Err(ErrorClass::Gone));
        };
        let promised = &promised[start as usize..end as usize];
        if promised.is_empty() || promised.contains(&false) {
            return assert_eq!(allocated, Err(ErrorClass::Denied));
        }
        let spec = allocated.expect("W14: what was promised is given");
        assert_eq!(spec.file_offset, range(id, start, end).start());
        assert_eq!(spec.disk_num_bytes, spec.num_bytes);
        let blocks = spec.num_bytes.get() / BLOCK;
        assert!(blocks > 0 && blocks <= end - start, "{spec:?}");
        self.mark_promised(id, start, start + blocks, false);
        let (_, cells) = &self.now.files[&id];
        let there = &cells[start as usize..(start + blocks) as usize];
        match spec.kind {
            OrderedKind::Prealloc => assert!(there.iter().all(|cell| *cell == Cell::Unwritten)),
            OrderedKind::Plain => assert!(!there.contains(&Cell::Unwritten)),
            OrderedKind::Nocow => panic!("data is never written over"),
        }
        self.submit(id, start, spec);
    }

    /// At most `len` blocks of the promised run number `nth` of a file.
    fn promised_run(&self, id: FileId, nth: u64, len: u64) -> Option<(u64, u64)> {
        let promised = self.promised.get(&id)?;
        let mut runs = Vec::new();
        let mut at = 0;
        for run in promised.chunk_by(|a, b| a == b) {
            let end = at + run.len() as u64;
            if run[0] {
                runs.push((at, end.min(at + len)));
            }
            at = end;
        }
        let count = runs.len() as u64;
        runs.get((nth % count.max(1)) as usize).copied()
    }

    /// Writes a range at once, if nothing is on its way there.
    fn write(&mut self, id: FileId, start: u64, end: u64) {
        if self.is_flying(id, start, end) || self.reserve(id, start, end).is_err() {
            return;
        }
        let mut at = start;
        while at < end {
            let before = self.flights.len();
            self.allocate(id, at, end);
            assert_eq!(self.flights.len(), before + 1);
            at += self.flights[before].tokens.len() as u64;
            self.complete(before, How::Written);
        }
    }

    fn is_flying(&self, id: FileId, start: u64, end: u64) -> bool {
        self.flights.iter().any(|flight| {
            let flight_end = flight.first + flight.tokens.len() as u64;
            flight.file == id && !flight.orphan && flight.first < end && start < flight_end
        })
    }

    /// Writes data to the place of an ordered extent.
    fn submit(&mut self, id: FileId, first: u64, spec: NewOrdered) {
        let blocks = spec.num_bytes.get() / BLOCK;
        let tokens: Vec<Option<u64>> = (1..=blocks).map(|nth| Some(self.token + nth)).collect();
        self.token += blocks;
        self.put(spec.disk_bytenr, &tokens);
        let mut table = OrderedTable::new(BlockSize::MIN);
        let id_in_table = table.insert(spec).expect("a sound extent");
        self.flights.push(Flight {
            file: id,
            orphan: false,
            table,
            id: id_in_table,
            kind: spec.kind,
            first,
            kept: tokens.len() as u64,
            tokens,
        });
    }

    /// Writes a block for each token; of what has none, something.
    fn put(&self, at: DiskByte, tokens: &[Option<u64>]) {
        for (nth, token) in (0..).zip(tokens) {
            let mut bytes = [0; BLOCK as usize];
            bytes[..8].copy_from_slice(&token.unwrap_or(u64::MAX).to_le_bytes());
            let at = DiskByte::new(at.get() + nth * BLOCK);
            write_all(self.device.inner(), at, &[&bytes]).expect("nothing fails");
        }
    }

    /// Splits an ordered extent, and lets its first part be another flight (O7).
    fn split(&mut self, index: usize, at: u64) {
        let Some(flight) = self.flights.get_mut(index) else {
            return;
        };
        if at == 0 || at >= flight.kept || flight.kept < flight.tokens.len() as u64 {
            return;
        }
        let offset = range(flight.file, flight.first + at, flight.first + at).start();
        let (front_id, back_id) = flight.table.split(offset).expect("nothing is done");
        let start = range(flight.file, flight.first, flight.first).start();
        let front = flight.table.remove(front_id, start);
        let front = front.expect("the table has it").spec();
        let mut table = OrderedTable::new(BlockSize::MIN);
        let front_id = table.insert(front).expect("a sound extent");
        let rest = flight.tokens.split_off(at as usize);
        let tokens = core::mem::replace(&mut flight.tokens, rest);
        let front = Flight {
            file: flight.file,
            orphan: flight.orphan,
            table,
            id: front_id,
            kind: flight.kind,
            first: flight.first,
            kept: at,
            tokens,
        };
        flight.id = back_id;
        flight.first += at;
        flight.kept -= at;
        self.flights.push(front);
    }

    fn truncate(&mut self, index: usize, at: u64) {
        let Some(flight) = self.flights.get_mut(index) else {
            return;
        };
        flight.kept = flight.kept.min(at);
        let len = flight.tokens.len() as u64;
        if at < len {
            let tail = range(flight.file, flight.first + at, flight.first + len);
            flight.table.truncate(tail);
        }
    }

    fn complete(&mut self, index: usize, how: How) {
        if index >= self.flights.len() {
            return;
        }
        let mut flight = self.flights.remove(index);
        let (first, len) = (flight.first, flight.tokens.len() as u64);
        let whole = range(flight.file, first, first + len);
        let outcome = match how {
            How::Written => IoOutcome::Written {
                valid_end: whole.end(),
            },
            How::Failed | How::FailedAndReserved | How::GivenBack => IoOutcome::Failed,
        };
        flight.table.finish(whole, outcome, &mut ());
        let extent = flight.table.remove(flight.id, whole.start());
        let extent = extent.expect("the table has it");
        let outcome = extent.outcome().expect("all bytes are finished");
        // The device may write as late as this, whatever comes of it.
        let place = extent.disk_of(whole.start()).expect("its first byte");
        self.put(place, &flight.tokens);
        if how == How::GivenBack {
            return self.store.give_back(flight.file, extent.spec());
        }
        let completed = self.store.complete(flight.file, &extent, outcome);
        if flight.orphan {
            return assert_eq!(completed, Err(ErrorClass::Gone));
        }
        assert_eq!(completed, Ok(()));
        let again = self.store.complete(flight.file, &extent, outcome);
        assert_eq!(again, Err(ErrorClass::Denied), "completed twice");
        if how == How::Written {
            let (_, cells) = self.now.files.get_mut(&flight.file).expect("no orphan");
            let tokens = flight.tokens.iter().take(flight.kept as usize);
            for (cell, token) in cells[first as usize..].iter_mut().zip(tokens) {
                if let Some(token) = token {
                    *cell = Cell::Data(*token);
                }
            }
        }
        if how == How::FailedAndReserved {
            let reserved = self.reserve(flight.file, first, first + len);
            assert_eq!(reserved, Ok(()), "what was given back is there");
        }
    }

    fn punch(&mut self, id: FileId, start: u64, end: u64) {
        let punched = self.store.punch(id, range(id, start, end));
        let Some((_, cells)) = self.now.files.get_mut(&id) else {
            return assert_eq!(punched, Err(ErrorClass::Gone));
        };
        if punched == Err(ErrorClass::NoSpace) {
            return;
        }
        assert_eq!(punched, Ok(()));
        cells[start as usize..end as usize].fill(Cell::Hole);
        for flight in &mut self.flights {
            let in_place = flight.kind == OrderedKind::Prealloc && flight.file == id;
            for (cell, token) in (flight.first..).zip(&mut flight.tokens) {
                if in_place && (start..end).contains(&cell) {
                    *token = None;
                }
            }
        }
    }

    fn preallocate(&mut self, id: FileId, start: u64, end: u64) {
        let done = self.store.preallocate(id, range(id, start, end));
        let Some((_, cells)) = self.now.files.get_mut(&id) else {
            return assert!(start == end || done == Err(ThinError::NoFile(id)));
        };
        if matches!(done, Err(ThinError::NoSpace { .. })) {
            return;
        }
        assert_eq!(done, Ok(()));
        for cell in &mut cells[start as usize..end as usize] {
            if *cell == Cell::Hole {
                *cell = Cell::Unwritten;
            }
        }
    }

    fn persist(&mut self, plan: FaultPlan) {
        self.device.set_plan(plan);
        let doubted_before = self.store.in_doubt();
        let persisted = self.store.persist(&self.device);
        self.device.set_plan(FaultPlan::new());
        let settled = self.store.generation() > self.generation;
        self.generation = self.store.generation();
        match persisted {
            Ok(()) => {
                assert!(settled || self.now == self.durable, "nothing was written");
                self.durable = self.now.clone();
                self.doubted = None;
                assert!(!self.store.in_doubt());
            }
            Err(ThinError::Device(_)) => {
                if settled && let Some(doubted) = self.doubted.take() {
                    self.durable = doubted;
                }
                if !self.store.in_doubt() {
                    self.doubted = None;
                } else if settled || !doubted_before {
                    self.doubted = Some(self.now.clone());
                }
            }
            Err(error) => panic!("only the device may fail: {error}"),
        }
    }

    fn crash(&mut self, seed: u64) {
        let mut state = seed;
        let fates: Vec<Fate> = (0..self.device.inner().unflushed().len())
            .map(|_| match seed::next(&mut state) % 2 {
                0 => Fate::Lost,
                _ => Fate::Kept,
            })
            .collect();
        self.device.inner().crash(&fates);
        let store = ThinStore::open(&self.device).expect("a crash leaves a store");
        let shown = self.compare_crashed(store.clone(), self.device.inner());
        self.promised = shown
            .files
            .iter()
            .map(|(id, (_, cells))| (*id, vec![false; cells.len()]))
            .collect();
        self.generation = store.generation();
        self.store = store;
        self.now = shown.clone();
        self.durable = shown;
        self.doubted = None;
        self.flights.clear();
    }

    /// A store after a crash says what was durable, or what was in doubt.
    fn compare_crashed(&self, mut store: ThinStore, device: &VolatileDevice) -> Model {
        if let Err(error) = store.check() {
            panic!("after a crash: {error}");
        }
        let newer = store.generation() > self.generation;
        let expected = match &self.doubted {
            Some(doubted) if newer => doubted,
            _ => &self.durable,
        };
        compare(&mut store, device, expected);
        expected.clone()
    }
}

/// The store names the files of the model, their sizes and cells, and the device
/// holds their data.
fn compare(store: &mut ThinStore, device: &VolatileDevice, model: &Model) {
    let files: Vec<FileId> = store.files().collect();
    assert!(files.iter().eq(model.files.keys()), "{files:?}");
    for (id, (size, cells)) in &model.files {
        assert_eq!(store.size(*id), Some(FileOffset::new(*size)), "{id}");
        let mut at = 0;
        while at < cells.len() as u64 {
            let asked = range(*id, at, at + 1);
            let extent = store.map(*id, asked).expect("the file exists");
            assert!(extent.range.covers(asked), "{extent:?}");
            let end = (extent.range.end().get() - base(*id)) / BLOCK;
            for block in at..end.min(cells.len() as u64) {
                let skip = range(*id, block, block).start().get() - extent.range.start().get();
                let found = match extent.kind {
                    ExtentKind::Hole => Cell::Hole,
                    ExtentKind::Unwritten(_) => Cell::Unwritten,
                    ExtentKind::Data(disk) => {
                        let mut token = [0; BLOCK as usize];
                        let place = disk.checked_add(LenBytes::new(skip));
                        let place = place.expect("a block of the device");
                        read_exact(device, place, &mut token).expect("nothing fails");
                        let token = token[..8].try_into().unwrap_or_default();
                        Cell::Data(u64::from_le_bytes(token))
                    }
                };
                assert_eq!(found, cells[block as usize], "{id}, block {block}");
            }
            at = end;
        }
    }
}

pub(super) fn geometry() -> DeviceGeometry {
    let geometry = DeviceGeometry::new(512, 512).expect("powers of two");
    geometry.with_capacity(LenBytes::new(BLOCKS * BLOCK))
}

/// Where the cells of a file begin: those of the last one end as near to 2^64 as
/// blocks can.
fn base(id: FileId) -> u64 {
    if id.0 == FILES - 1 {
        (u64::MAX / BLOCK - CELLS) * BLOCK
    } else {
        0
    }
}

fn range(id: FileId, start: u64, end: u64) -> FileRange {
    let at = |cell: u64| FileOffset::new(base(id) + cell * BLOCK);
    FileRange::new(at(start), at(end)).expect("in order")
}
