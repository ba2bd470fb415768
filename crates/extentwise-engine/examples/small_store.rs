//! A store of values by number in one file, cached by the engine. An embedder brings
//! where data lies ([`Mapping`]), what carries it ([`Device`]), and how the map is made
//! durable ([`Host::persist`]).

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use extentwise_device::{Device, DeviceError, DeviceGeometry, read_exact, write_all};
#[allow(clippy::wildcard_imports, reason = "most of it is used here")]
use extentwise_engine::*;

const ARRAY: FileId = FileId(1);
const BLOCK: u64 = 4096;
type Value = [u8; 100];

/// Block 0 holds the size of the array, which lies behind it as it is.
struct Layout {
    /// What a crash leaves.
    size: FileOffset,
    /// Before here, the device holds data.
    data_end: FileOffset,
}

impl Mapping for Layout {
    fn map(&mut self, _: FileId, asked: FileRange) -> Result<FileExtent, ErrorClass> {
        let data = FileRange::clamped(FileOffset::ZERO, self.data_end).overlap(asked);
        let kind = data.map_or(ExtentKind::Hole, |data| {
            ExtentKind::Data(place(data.start()))
        });
        let range = data.unwrap_or(asked);
        Ok(FileExtent { range, kind })
    }
    // The file below grows as it is written, so that there is nothing to promise.
    fn reserve(&mut self, _: FileId, _: FileRange) -> Result<(), ErrorClass> {
        Ok(())
    }
    fn unreserve(&mut self, _: FileId, _: FileRange) {}
    fn allocate(&mut self, _: FileId, run: FileRange) -> Result<NewOrdered, ErrorClass> {
        let mut new = NewOrdered::plain(run.start(), run.len(), place(run.start()));
        new.kind = OrderedKind::Nocow; // Written in place.
        Ok(new)
    }
    fn complete(&mut self, _: FileId, oe: &OrderedExtent, _: Outcome) -> Result<(), ErrorClass> {
        if !oe.flags().contains(OrderedFlags::IO_ERROR) {
            self.data_end = self.data_end.max(oe.range().end());
        }
        Ok(())
    }
    // This store cuts nothing off; if it did, the last blocks would go.
    fn punch(&mut self, _: FileId, hole: FileRange) -> Result<(), ErrorClass> {
        self.data_end = self.data_end.min(hole.start());
        Ok(())
    }
    fn set_size(&mut self, _: FileId, size: FileOffset) -> Result<(), ErrorClass> {
        self.size = size;
        Ok(())
    }
}

fn place(at: FileOffset) -> DiskByte {
    DiskByte::new(BLOCK + at.get())
}

/// A file of the operating system. Short answers are fine: the engine goes on.
struct Disk(File);

impl Device for Disk {
    fn geometry(&self) -> DeviceGeometry {
        DeviceGeometry::new(1, 1).expect("1 is a power of two")
    }
    fn read(&self, at: DiskByte, into: &mut [&mut [u8]]) -> Result<LenBytes, DeviceError> {
        let place = (&self.0).seek(SeekFrom::Start(at.get()));
        let read = place.and_then(|_| (&self.0).read(into[0]));
        Ok(LenBytes::new(read.map_err(|_| ErrorClass::Io)? as u64))
    }
    fn write(&self, at: DiskByte, from: &[&[u8]]) -> Result<LenBytes, DeviceError> {
        let place = (&self.0).seek(SeekFrom::Start(at.get()));
        let written = place.and_then(|_| (&self.0).write(from[0]));
        Ok(LenBytes::new(written.map_err(|_| ErrorClass::Io)? as u64))
    }
    fn flush(&self) -> Result<(), DeviceError> {
        Ok(self.0.sync_data().map_err(|_| ErrorClass::Io)?)
    }
}

impl Host<Layout> for Disk {
    type Device = Self;
    fn device(&self, _: FileId) -> Result<&Self, DeviceError> {
        Ok(self)
    }
    fn persist(&self, layout: &mut Layout, _: FileId) -> Result<(), DeviceError> {
        write_all(self, DiskByte::ZERO, &[&layout.size.get().to_le_bytes()])?;
        self.flush()
    }
}

/// Values of one size by number: an array that is as long as its last value.
struct Store {
    cache: Driver<HeapMemory, Layout, Disk>,
    array: HandleId,
}

impl Store {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let disk = Disk(options.open(path)?);
        let mut size = [0; 8];
        read_exact(&disk, DiskByte::ZERO, &mut size)?;
        let size = FileOffset::new(u64::from_le_bytes(size));
        let block = BlockSize::new(BLOCK)?;
        let data_end = FileOffset::new(block.ceil(size.get()));
        let layout = Layout { size, data_end };
        let mut engine = Engine::new(Config::new(block), HeapMemory, layout)?;
        let array = engine.open(ARRAY, size)?;
        let cache = Driver::new(engine, disk);
        Ok(Self { cache, array })
    }

    fn put(&mut self, number: u32, value: &Value) -> Result<(), Refusal> {
        let written = self.cache.write(self.array, offset(number), value);
        written.map_err(|(_, refusal)| refusal)
    }

    /// `None` behind the last value; zeros where none was put.
    fn get(&mut self, number: u32) -> Result<Option<Value>, Refusal> {
        let mut value = [0; 100];
        let len = self.cache.read(self.array, offset(number), &mut value)?;
        Ok((len == value.len()).then_some(value))
    }
}

fn offset(number: u32) -> FileOffset {
    FileOffset::new(u64::from(number) * 100)
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::temp_dir().join(format!("small-store-{}", std::process::id()));
    let mut store = Store::open(&path)?;
    (0..1000).try_for_each(|number| store.put(number, &[7; 100]))?;
    store.cache.sync(store.array)?; // From here on, it survives a crash.
    store.put(1000, &[9; 100])?; // Not synced: gone with the process.
    let mut store = Store::open(&path)?;
    assert_eq!(store.get(999)?, Some([7; 100]));
    assert_eq!(store.get(1000)?, None);
    Ok(fs::remove_file(path)?)
}
