//! What a file must hold, and what a crash may show of it.

/// The longest file.
pub(super) const LEN: usize = 8192;

/// The bytes of a file with all their versions.
///
/// **Invariant**: bytes behind the size are zero. The versions of an atom are in
/// order, the last is what the file holds now; before the first it was zero.
#[derive(Clone, Debug)]
pub(super) struct Model {
    atom: usize,
    size_unit: u64,
    bytes: Vec<u8>,
    size: u64,
    versions: Vec<Vec<Version>>,
    sizes: Vec<(u64, u64)>,
    /// By atom: what a crash shows is the version of this time, or a later one.
    floors: Vec<u64>,
    size_floor: u64,
    /// Bytes that were lost, and told so: any version may be there. Empty: none.
    loose: Vec<bool>,
}

#[derive(Clone, Debug)]
struct Version {
    stamp: u64,
    bytes: Box<[u8]>,
    /// Some bytes may be of any version instead.
    loose: bool,
}

impl Model {
    /// An empty file that a crash shows in versions of `atom` bytes, and in a size
    /// that may be rounded up to `size_unit`.
    pub(super) fn new(atom: usize, size_unit: u64) -> Self {
        let atoms = LEN / atom;
        Self {
            atom,
            size_unit,
            bytes: vec![0; LEN],
            size: 0,
            versions: vec![Vec::new(); atoms],
            sizes: vec![(0, 0)],
            floors: vec![0; atoms],
            size_floor: 0,
            loose: Vec::new(),
        }
    }

    /// The bytes, zero behind the size.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// `fill` was written at `start`: a byte for each sector of the file.
    pub(super) fn write(
        &mut self,
        stamp: u64,
        start: usize,
        len: usize,
        fill: impl Fn(usize) -> u8,
    ) {
        if len == 0 {
            return;
        }
        let end = (start + len).min(LEN);
        self.fill(start, end, fill);
        self.tighten(start, end);
        if end as u64 > self.size {
            self.size = end as u64;
            self.sizes.push((stamp, self.size));
        }
        self.note(stamp, start, end);
    }

    /// The file has another size.
    pub(super) fn resize(&mut self, stamp: u64, size: u64) {
        let old = at(self.size);
        let new = at(size);
        if new < old {
            self.bytes[new..old].fill(0);
            self.tighten(new, old);
            self.note(stamp, new, old);
        }
        self.size = size;
        self.sizes.push((stamp, size));
    }

    /// These bytes read as zero.
    pub(super) fn punch(&mut self, stamp: u64, start: usize, end: usize) {
        let end = end.min(at(self.size));
        if start < end {
            self.bytes[start..end].fill(0);
            self.tighten(start, end);
            self.note(stamp, start, end);
        }
    }

    /// These bytes are zero, or as they were: a punch was begun and not ended.
    pub(super) fn may_be_zero(&mut self, stamp: u64, start: usize, end: usize) {
        self.may_be(stamp, start, end, |_| 0);
    }

    /// These bytes are as they were, or from the write that began at `start`: a
    /// short copy, of which some stands and of some nothing is said (V8).
    pub(super) fn may_be(
        &mut self,
        stamp: u64,
        start: usize,
        end: usize,
        fill: impl Fn(usize) -> u8,
    ) {
        let end = end.min(at(self.size));
        if start >= end {
            return;
        }
        let old = self.bytes[start..end].to_vec();
        self.fill(start, end, fill);
        self.note(stamp, start, end);
        self.bytes[start..end].copy_from_slice(&old);
        self.loosen(stamp, start, end);
    }

    /// Fills with a byte for each sector of the file.
    fn fill(&mut self, start: usize, end: usize, fill: impl Fn(usize) -> u8) {
        let mut at = start;
        while at < end {
            let next = (at / 512 * 512 + 512).min(end);
            self.bytes[at..next].fill(fill(at / 512));
            at = next;
        }
    }

    /// The loss of these bytes was told.
    pub(super) fn loosen(&mut self, stamp: u64, start: usize, end: usize) {
        let end = end.min(at(self.size));
        if start < end {
            self.loose.resize(LEN, false);
            self.loose[start..end].fill(true);
            self.note(stamp, start, end);
        }
    }

    fn tighten(&mut self, start: usize, end: usize) {
        if !self.loose.is_empty() {
            self.loose[start..end].fill(false);
        }
    }

    fn note(&mut self, stamp: u64, start: usize, end: usize) {
        for index in start / self.atom..end.div_ceil(self.atom) {
            let place = index * self.atom..(index + 1) * self.atom;
            let loose = self.loose.get(place.clone());
            self.versions[index].push(Version {
                stamp,
                bytes: self.bytes[place].into(),
                loose: loose.is_some_and(|loose| loose.contains(&true)),
            });
        }
    }

    /// A sync that began at `stamp` promised these bytes; with the size if it was
    /// of the whole file.
    pub(super) fn promise(&mut self, stamp: u64, range: Option<(usize, usize)>) {
        let (start, end) = range.unwrap_or((0, LEN));
        for floor in &mut self.floors[start / self.atom..end.min(LEN).div_ceil(self.atom)] {
            *floor = stamp.max(*floor);
        }
        if range.is_none() {
            self.size_floor = self.size_floor.max(stamp);
        }
    }

    /// Whether the file may be read as `found` at `start`.
    pub(super) fn check_read(&self, start: usize, found: &[u8]) -> Result<(), String> {
        let expected = &self.bytes[start..start + found.len()];
        if expected == found {
            return Ok(());
        }
        let mut pairs = expected.iter().zip(found).zip(start..);
        match pairs.find(|((a, b), at)| a != b && !self.is_loose_as(*at, **b)) {
            None => Ok(()),
            Some(((expected, found), at)) => Err(format!(
                "byte {at} reads as {found:#x}, {expected:#x} was written"
            )),
        }
    }

    fn is_loose_as(&self, at: usize, byte: u8) -> bool {
        let within = at % self.atom;
        let versions = &self.versions[at / self.atom];
        self.loose.get(at) == Some(&true)
            && (byte == 0 || versions.iter().any(|version| version.bytes[within] == byte))
    }

    /// Whether a crash may show the file with these bytes and this size.
    pub(super) fn check_survivor(&self, size: u64, found: &[u8]) -> Result<(), String> {
        let sizes = self.sizes.iter().rev();
        let mut later = true;
        let allowed = sizes.take_while(|(stamp, _)| {
            // The one that was current at the floor counts, those before do not.
            let counts = later;
            later = later && *stamp > self.size_floor;
            counts
        });
        let (low, high) = allowed.fold((u64::MAX, 0), |(low, high), (_, size)| {
            (low.min(*size), high.max(*size))
        });
        let high = high.next_multiple_of(self.size_unit);
        if !(low..=high).contains(&size) && !self.loose.contains(&true) {
            return Err(format!("the size is {size}, {low} to {high} may be"));
        }
        for (index, found) in found[..at(size).min(LEN)].chunks(self.atom).enumerate() {
            if !self.is_version(index, found) {
                let floor = self.floors[index];
                let summed = |bytes: &[u8]| {
                    let mut runs: Vec<(u8, usize)> = Vec::new();
                    for byte in bytes {
                        match runs.last_mut() {
                            Some((last, count)) if last == byte => *count += 1,
                            _ => runs.push((*byte, 1)),
                        }
                    }
                    runs.truncate(8);
                    runs
                };
                let known: Vec<_> = self.versions[index]
                    .iter()
                    .map(|version| (version.stamp, summed(&version.bytes[..found.len()])))
                    .collect();
                return Err(format!(
                    "bytes {}..{} are no version since {floor}: {:?}, of {known:?}",
                    index * self.atom,
                    index * self.atom + found.len(),
                    summed(found),
                ));
            }
        }
        Ok(())
    }

    fn is_version(&self, index: usize, found: &[u8]) -> bool {
        let floor = self.floors[index];
        let versions = &self.versions[index];
        let first = versions.iter().rposition(|version| version.stamp <= floor);
        let allowed = &versions[first.unwrap_or(0)..];
        let zero = first.is_none() && found.iter().all(|byte| *byte == 0);
        if zero
            || allowed
                .iter()
                .any(|version| &version.bytes[..found.len()] == found)
        {
            return true;
        }
        let any = |within: usize, byte: u8| {
            let mut versions = versions.iter();
            byte == 0 || versions.any(|version| version.bytes[within] == byte)
        };
        let mut bytes = found.iter().enumerate();
        allowed.iter().any(|version| version.loose)
            && bytes.all(|(within, byte)| any(within, *byte))
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(model: &mut Model, stamp: u64, start: usize, len: usize, byte: u8) {
        model.write(stamp, start, len, |_| byte);
    }

    #[test]
    fn a_crash_may_show_what_was_promised_or_newer_and_nothing_older() {
        let mut model = Model::new(512, 1);
        let mut image = vec![0; LEN];
        for stamp in 1..4 {
            written(&mut model, stamp * 10, 0, 512, u8::try_from(stamp).unwrap());
        }
        model.promise(25, None);
        for (byte, allowed) in [(0, false), (1, false), (2, true), (3, true), (4, false)] {
            image[..512].fill(byte);
            assert_eq!(model.check_survivor(512, &image).is_ok(), allowed, "{byte}");
        }
        image[..512].fill(2);
        image[511] = 3;
        assert!(model.check_survivor(512, &image).is_err(), "torn");
        image[511] = 2;
        assert!(model.check_survivor(0, &image).is_err(), "cut");
    }

    #[test]
    fn only_what_was_told_to_be_lost_may_be_old() {
        let mut model = Model::new(512, 1);
        written(&mut model, 1, 0, 1024, 1);
        written(&mut model, 2, 0, 1024, 2);
        model.loosen(3, 0, 512);
        let mut found = vec![2; 1024];
        assert!(model.check_read(0, &found).is_ok());
        found[5] = 1;
        assert!(model.check_read(0, &found).is_ok());
        found[600] = 1;
        assert!(model.check_read(0, &found).is_err());
        found[600] = 2;
        found[7] = 9;
        assert!(model.check_read(0, &found).is_err(), "never written");
        written(&mut model, 4, 0, 512, 3);
        assert!(model.check_read(0, &[1]).is_err(), "written again");
    }
}
