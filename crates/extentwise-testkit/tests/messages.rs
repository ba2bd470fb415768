//! Every error of the core says in words what was wrong, with the value.

use extentwise_core::bitmap::BitmapError;
use extentwise_core::errseq::ErrorClass;
use extentwise_core::geometry::{
    BlockIndex, BlockSize, DiskByte, FileOffset, FileRange, FolioGeometry, LenBytes,
};
use extentwise_core::ordered::{
    InsertError, NewOrdered, OrderedError, OrderedTable, SplitError, TreeStore,
};
use extentwise_core::write::{WriteError, WriteInputError};
use extentwise_core::writeback::{BioLimits, PassError, PassInputError};

/// Each message holds the words behind it.
fn assert_says(cases: &[(&dyn std::error::Error, &str)]) {
    for (error, words) in cases {
        let message = error.to_string();
        assert!(message.contains(words), "{message:?} lacks {words:?}");
    }
}

fn at(offset: u64) -> FileOffset {
    FileOffset::new(offset)
}

fn range(start: u64, end: u64) -> FileRange {
    FileRange::new(at(start), at(end)).unwrap()
}

#[test]
fn geometry_names_the_number_that_breaks_a_rule() {
    let folio = |pos, size| FolioGeometry::new(at(pos), LenBytes::new(size), BlockSize::MIN);
    let last = 0_u64.wrapping_sub(4096);
    assert_says(&[
        (&BlockSize::new(700).unwrap_err(), "block size 700"),
        (&folio(0, 3000).unwrap_err(), "folio size 3000"),
        (&folio(512, 4096).unwrap_err(), "position 512"),
        (&folio(last, 4096).unwrap_err(), &last.to_string()),
    ]);
    assert_eq!(range(3, 9).to_string(), "[3, 9)");
}

#[test]
fn bitmaps_name_their_words_bits_and_blocks() {
    let (words, blocks, bit) = (1, 65, BlockIndex::new(70));
    assert_says(&[
        (&BitmapError::TooFewWords { words, blocks }, "65 blocks"),
        (&BitmapError::BitBehindEnd { bit, blocks }, "bit 70"),
    ]);
}

#[test]
fn ordered_extents_name_the_number_or_the_range() {
    let mut table = OrderedTable::<TreeStore>::new(BlockSize::MIN);
    let spec = |start, len| NewOrdered::plain(at(start), LenBytes::new(len), DiskByte::new(512));
    table.insert(spec(0, 1024)).unwrap();
    let mut small = spec(4096, 1024);
    small.disk_num_bytes = LenBytes::new(512);
    let mut refusal = |spec| table.insert(spec).unwrap_err();
    assert_says(&[
        (&refusal(spec(5, 512)), "file_offset 5"),
        (&refusal(spec(4096, 0)), "num_bytes 0"),
        (
            &refusal(spec(u64::MAX - 511, 512)),
            "file_offset + num_bytes",
        ),
        (&refusal(small), "disk_num_bytes 512"),
        (&refusal(spec(512, 512)), "[0, 1024)"),
        (&InsertError::Full, "full"),
        (&OrderedError::Overflow("offset"), "offset"),
        (&table.split(at(7)).unwrap_err(), "split at 7"),
        (&table.split(at(1024)).unwrap_err(), "no ordered extent"),
        (&SplitError::Ended, "done or has failed"),
        (&SplitError::PartDone, "one part"),
        (&SplitError::Unknown, "not known"),
        (&SplitError::Full, "full"),
    ]);
}

#[test]
fn writes_and_passes_name_the_block_and_keep_the_reason() {
    let block = BlockIndex::new(3);
    let error = ErrorClass::NoSpace;
    let file_offset = at(8192);
    let sizes = PassInputError::BitmapSize {
        bitmap: 64,
        folio: 8,
    };
    let one = LenBytes::new(1);
    let limits = BioLimits::new(Some(one), None, BlockSize::MIN).unwrap_err();
    assert_says(&[
        (&WriteInputError::Empty, "at least one byte"),
        (&WriteInputError::Outside(range(1, 2)), "[1, 2)"),
        (&WriteError::Map { block, error }, "block 3: no space left"),
        (&WriteError::Read { block, error }, "block 3: no space left"),
        (&WriteError::<ErrorClass>::BadMapping { block }, "block 3"),
        (
            &PassError::Refused { file_offset, error },
            "8192 was refused: no space",
        ),
        (
            &PassError::<ErrorClass>::MissingOrdered { file_offset },
            "8192",
        ),
        (&sizes, "64 blocks for a folio of 8"),
        (&PassInputError::NotDirty(block), "block 3"),
        (&PassInputError::Range(range(1, 2)), "[1, 2)"),
        (&limits, "max_bytes 1"),
    ]);
}

#[test]
fn e3_classes_of_errors_read_differently() {
    let classes = [
        ErrorClass::Io,
        ErrorClass::NoSpace,
        ErrorClass::Quota,
        ErrorClass::TooLarge,
        ErrorClass::ReadOnly,
        ErrorClass::NoMemory,
        ErrorClass::Unsupported,
        ErrorClass::Denied,
        ErrorClass::Gone,
    ];
    let mut texts = classes.map(|class| class.to_string());
    texts.sort();
    assert!(texts.windows(2).all(|pair| pair[0] != pair[1]));
}
