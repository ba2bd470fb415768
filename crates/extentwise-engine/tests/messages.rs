//! Every error of the engine and of devices says in words what was wrong, with the
//! value.

mod support;

use extentwise_device::{DeviceError, DeviceGeometry};
use extentwise_engine::{
    CloseError, CloseReason, Config, Engine, ErrorClass, FileId, HeapMemory, Identity, LenBytes,
    NoMemory, Refusal,
};
use support::{Stage, config, range};

/// Each message holds the words behind it.
fn assert_says(cases: &[(&dyn std::error::Error, &[&str])]) {
    for (error, words) in cases {
        let message = error.to_string();
        for words in *words {
            assert!(message.contains(words), "{message:?} lacks {words:?}");
        }
    }
}

#[test]
fn a_refused_configuration_names_the_field_the_value_and_the_rule() {
    let refusal = |config: Config| {
        let engine = Engine::new(config, HeapMemory, Identity::new());
        engine.map(|_| ()).unwrap_err()
    };
    let sound = config();
    let bytes = LenBytes::new;
    let mut folio = sound;
    folio.folio_bytes_max = bytes(6000);
    let mut huge = sound;
    huge.folio_bytes_max = bytes(1 << 62);
    let mut cache = sound;
    cache.cache_bytes_max = bytes(4097);
    let mut extent = sound;
    extent.extent_bytes_max = bytes(4097);
    let mut own = sound;
    own.file_dirty_bytes_max = bytes(3);
    let mut background = sound;
    background.dirty_bytes_background = bytes(u64::MAX);
    assert_says(&[
        (&refusal(folio), &["folio_bytes_max 6000", "power of two"]),
        (&refusal(huge), &["folio_bytes_max", "at most 1 TiB"]),
        (&refusal(cache), &["cache_bytes_max 4097", "two blocks"]),
        (&refusal(extent), &["extent_bytes_max 4097", "multiple of"]),
        (
            &refusal(sound.with_dirty_bytes(bytes(7))),
            &["dirty_bytes_max 7", "at least a block"],
        ),
        (
            &refusal(own),
            &["file_dirty_bytes_max 3", "at least a block"],
        ),
        (
            &refusal(background),
            &["dirty_bytes_background", "at most dirty_bytes_max"],
        ),
    ]);
}

#[test]
fn a_refusal_says_what_to_do_and_keeps_the_class() {
    let class = ErrorClass::NoSpace;
    assert_says(&[
        (&Refusal::Busy, &["busy", "try again"]),
        (&Refusal::NotOpen, &["no such open file"]),
        (&Refusal::Range(range(7, 7)), &["[7, 7)", "2^63"]),
        (&Refusal::Failed(class), &["no space left"]),
        (
            &Refusal::Latched(class),
            &["no space left", "open the file again"],
        ),
        (&NoMemory, &["no memory for a folio"]),
    ]);
}

#[test]
fn a_refused_close_says_what_is_in_its_way() {
    let handle = Stage::new(config()).handle;
    let close = |reason| CloseError { handle, reason };
    assert_says(&[
        (&close(CloseReason::NotOpen), &["close", "no such open"]),
        (
            &close(CloseReason::Dirty(LenBytes::new(8192))),
            &["close", "8192 dirty bytes", "sync"],
        ),
        (&close(CloseReason::Busy), &["close", "under way"]),
        (
            &close(CloseReason::Failed(ErrorClass::Quota)),
            &["close", "writeback failed", "quota"],
        ),
    ]);
    assert_eq!(FileId(12).to_string(), "file 12");
}

#[test]
fn a_device_names_the_size_it_cannot_have_and_the_number_of_the_system() {
    let device = DeviceGeometry::new(512, 4096).unwrap();
    let transfer = device.with_transfer_max(LenBytes::new(1000)).unwrap_err();
    let system = DeviceError::with_os_code(ErrorClass::NoSpace, 28);
    assert_says(&[
        (
            &DeviceGeometry::new(700, 4096).unwrap_err(),
            &["block of 700", "power of two"],
        ),
        (
            &DeviceGeometry::new(512, 3000).unwrap_err(),
            &["block of 3000", "power of two"],
        ),
        (
            &DeviceGeometry::new(4096, 512).unwrap_err(),
            &["physical block of 512", "4096"],
        ),
        (&transfer, &["transfer 1000", "multiple"]),
        (&system, &["no space left", "os error 28"]),
        (&DeviceError::UNSUPPORTED, &["supported"]),
    ]);
}

#[test]
fn a_loss_says_why_data_is_gone() {
    let failed = extentwise_engine::Loss::Failed(ErrorClass::NoSpace).to_string();
    assert!(failed.starts_with("it could not be written: "), "{failed}");
    assert!(failed.ends_with(&ErrorClass::NoSpace.to_string()));
    let discarded = extentwise_engine::Loss::Discarded.to_string();
    assert_eq!(discarded, "its file was closed without it");
}
