//! One mistake as text: what is right, and what stands there instead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The lines that open the two texts.
const RIGHT: &str = "--- right\n";
const MISTAKEN: &str = "--- mistaken\n";

/// The crate whose tests are asked where a text names none.
const CORE: &str = "extentwise-core";

/// A mistake that can be put into the sources.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Bug {
    /// What it is called: the name of its file.
    pub(super) name: String,
    /// The rule that it breaks.
    pub(super) rule: String,
    /// The public report that it is after, or the rule once more.
    pub(super) after: String,
    /// What goes wrong, in a sentence.
    pub(super) mistake: String,
    /// The crate whose tests have to notice it.
    pub(super) tests: String,
    /// The test that has to: `suite::name`; any, if none is named.
    pub(super) test: Option<String>,
    /// The source file, relative to the workspace.
    pub(super) file: PathBuf,
    right: String,
    mistaken: String,
}

impl Bug {
    /// All mistakes that `folder` describes, those of one source file together: then little
    /// is built anew from one to the next.
    pub(super) fn all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut paths = fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "txt"));
        let read = |path: &PathBuf| {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            Self::parse(&name, &fs::read_to_string(path)?)
                .map_err(|reason| io::Error::other(format!("{}: {reason}", path.display())))
        };
        let mut bugs = paths.iter().map(read).collect::<io::Result<Vec<_>>>()?;
        bugs.sort_by(|a, b| (&a.file, &a.name).cmp(&(&b.file, &b.name)));
        Ok(bugs)
    }

    /// Reads the lines of the head, of which `tests` and `test` may be left out, then the two
    /// texts, which are whole lines.
    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let (head, texts) = cut(text, RIGHT)?;
        let (right, mistaken) = cut(texts, MISTAKEN)?;
        let given = |key: &str| {
            head.lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
                .map(str::to_owned)
        };
        let field = |key: &str| given(key).ok_or_else(|| format!("no line `{key}: …`"));
        Ok(Self {
            name: name.into(),
            rule: field("rule")?,
            after: field("after")?,
            mistake: field("mistake")?,
            tests: given("tests").unwrap_or_else(|| CORE.into()),
            test: given("test"),
            file: field("file")?.into(),
            right: right.into(),
            mistaken: mistaken.into(),
        })
    }

    /// `source` with the mistake in it. The right text must stand there exactly once, as
    /// whole lines: a mistake put nowhere, or somewhere else, would prove nothing.
    pub(super) fn apply(&self, source: &str) -> Result<String, String> {
        let mut places = source
            .match_indices(&self.right)
            .map(|(at, _)| at)
            .filter(|&at| at == 0 || source[..at].ends_with('\n'));
        match (places.next(), places.count()) {
            (Some(at), 0) => {
                let behind = &source[at + self.right.len()..];
                Ok([&source[..at], &self.mistaken, behind].concat())
            }
            (first, more) => Err(format!(
                "{}: the patch no longer applies, update it: its right text stands {} times in {}",
                self.name,
                more + usize::from(first.is_some()),
                self.file.display()
            )),
        }
    }

    /// The module that the mistake is in, as its tests are named: `writeback::`.
    pub(super) fn module(&self) -> Option<String> {
        let mut parts = self.file.iter().skip_while(|part| *part != "src").skip(1);
        let first = parts.next()?.to_str()?;
        Some(format!("{}::", first.strip_suffix(".rs").unwrap_or(first)))
    }

    /// Whether somebody else's report stands behind it.
    pub(super) fn is_after_a_report(&self) -> bool {
        !self.after.starts_with("rule ")
    }
}

fn cut<'a>(text: &'a str, line: &str) -> Result<(&'a str, &'a str), String> {
    text.split_once(line)
        .ok_or_else(|| format!("no line `{}`", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "rule: W7\nafter: rule W7\nmistake: a step\nfile: crates/core/src/a/b.rs\n\
                        --- right\n    one();\n--- mistaken\n    two();\n";

    #[test]
    fn a_mistake_is_put_in_where_its_right_text_stands_once() {
        let bug = Bug::parse("step", TEXT).expect("the text is whole");
        assert_eq!(
            bug.apply("fn f() {\n    one();\n}\n").as_deref(),
            Ok("fn f() {\n    two();\n}\n")
        );
        assert_eq!(bug.module().as_deref(), Some("a::"));
        assert!(!bug.is_after_a_report());
        assert_eq!((bug.tests.as_str(), bug.test), ("extentwise-core", None));
    }

    #[test]
    fn a_mistake_names_the_crate_and_the_test_that_have_to_notice_it() {
        let named = "tests: extentwise-engine\ntest: ends::grows\n".to_owned() + TEXT;
        let bug = Bug::parse("step", &named).expect("the text is whole");
        assert_eq!(bug.tests, "extentwise-engine");
        assert_eq!(bug.test.as_deref(), Some("ends::grows"));
    }

    #[test]
    fn a_patch_that_does_not_fit_exactly_once_is_refused() {
        let bug = Bug::parse("step", TEXT).expect("the text is whole");
        for source in [
            "fn f() {}\n",
            "    one();\n    one();\n",
            "        one();\n",
            "",
        ] {
            let refusal = bug.apply(source).expect_err("it does not fit");
            assert!(refusal.contains("no longer applies"), "{refusal}");
        }
    }

    #[test]
    fn a_text_with_a_part_missing_is_refused_by_the_name_of_the_part() {
        for part in [
            "rule: ",
            "after: ",
            "mistake: ",
            "file: ",
            "--- right",
            "--- mistaken",
        ] {
            let refusal = Bug::parse("step", &TEXT.replace(part, "")).expect_err("a part less");
            assert!(refusal.contains(part.trim_end()), "{refusal}");
        }
    }

    #[test]
    fn every_mistake_fits_the_sources_and_changes_them() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let bugs = Bug::all(&package.join("seeded")).expect("the mistakes are readable");
        assert!(!bugs.is_empty());
        for bug in bugs {
            let source = fs::read_to_string(package.join("..").join(&bug.file)).expect("a source");
            let mistaken = bug
                .apply(&source)
                .unwrap_or_else(|refusal| panic!("{refusal}"));
            assert_ne!(source, mistaken, "{}", bug.name);
        }
    }
}
