//! What the features `tracing` and `metrics` tell.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use extentwise::device::{DeviceError, DeviceGeometry};
use extentwise::{
    BlockSize, Config, ErrorClass, ErrorPolicy, FileId, FileOffset, FileRange, Host, Identity,
    LenBytes, Loss, PageCache, Setup,
};
use extentwise_testkit::device::{
    CallKind, Fault, FaultDevice, FaultPlan, FaultRule, MemoryDevice, When,
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};

/// The text of events, by level.
static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static COUNTERS: Mutex<BTreeMap<String, Arc<AtomicU64>>> = Mutex::new(BTreeMap::new());

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                let _ = write!(self.0, " {field}={value:?}");
            }
        }
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        locked(&EVENTS).push(text.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Counters;

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Counter::from_arc(locked(&COUNTERS).entry(name).or_default().clone())
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct One(FaultDevice<MemoryDevice>);

impl Host<Identity> for One {
    type Device = FaultDevice<MemoryDevice>;

    fn device(&self, _: FileId) -> Result<&Self::Device, DeviceError> {
        Ok(&self.0)
    }
    fn persist(&self, mapping: &mut Identity, file: FileId) -> Result<(), DeviceError> {
        let _ = mapping.take_pending(file);
        Ok(())
    }
    fn lost(&self, _: FileId, _: FileRange, _: Loss) {}
}

#[test]
fn transfers_failures_and_losses_are_told() {
    tracing::subscriber::set_global_default(Listener).unwrap();
    metrics::set_global_recorder(Counters)
        .map_err(|_| ())
        .unwrap();

    let memory = MemoryDevice::new(DeviceGeometry::new(1, 512).unwrap());
    let fault = FaultRule::new(When::Nth(1), Fault::Error(ErrorClass::NoSpace));
    let plan = FaultPlan::new().with(fault.on(CallKind::Write));
    let disk = FaultDevice::new(memory, plan);
    let mut config = Config::new(BlockSize::new(512).unwrap());
    config.policy = ErrorPolicy::Drop;
    let mut mapping = Identity::new();
    mapping.add(FileId(7), FileOffset::ZERO);
    let cache = PageCache::new(Setup::new(config), mapping, One(disk)).unwrap();
    let file = cache.open(FileId(7), FileOffset::ZERO).unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    file.sync().unwrap();
    file.write_at(2048, &[2; 512]).unwrap();
    file.sync().unwrap_err();
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.dirty, LenBytes::ZERO);
    assert_eq!(snapshot.counts.failures, 1);

    let events = locked(&EVENTS).join("\n");
    assert!(
        events.contains("TRACE message=write file=7 bytes=1024"),
        "{events}"
    );
    let failed = "message=write failed";
    assert!(
        events
            .lines()
            .any(|line| line.starts_with("WARN") && line.contains(failed)),
        "{events}"
    );
    assert!(events.contains("message=data is lost"), "{events}");
    let counters = locked(&COUNTERS);
    let count = |name: &str| {
        counters
            .get(name)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    };
    assert_eq!(count("extentwise_transfers write"), 2);
    assert_eq!(count("extentwise_transferred_bytes write"), 1536);
    assert_eq!(
        count("extentwise_failures write no space left"),
        1,
        "{:?}",
        counters.keys()
    );
    assert_eq!(count("extentwise_lost_bytes "), 512);
}
