//! What a document names and what ran: each must know the same.

use std::collections::BTreeSet;
use std::fs;

use crate::report::Report;
use crate::workspace::Workspace;

/// A table of a document whose lines begin with a name.
pub(crate) struct Listed {
    pub(crate) document: &'static str,
    /// The heading above the table.
    pub(crate) section: &'static str,
    /// What one of them is called.
    pub(crate) kind: &'static str,
}

impl Listed {
    /// The names; at least one.
    pub(crate) fn names(&self, workspace: &Workspace) -> Result<BTreeSet<String>, String> {
        let Self {
            document,
            section,
            kind,
        } = self;
        let text = fs::read_to_string(workspace.root().join(document))
            .map_err(|error| format!("{document}: {error}"))?;
        let names = names_in(&text, section);
        if names.is_empty() {
            return Err(format!("{document}: no {kind} under `{section}`"));
        }
        Ok(names)
    }

    /// A name that only one side has is a fault.
    pub(crate) fn compare<'a>(
        &self,
        known: &BTreeSet<String>,
        ran: impl Iterator<Item = &'a str>,
        report: &mut Report,
    ) {
        let Self { document, kind, .. } = self;
        let ran: BTreeSet<String> = ran.map(str::to_owned).collect();
        for name in known.difference(&ran) {
            report.fault(format!("{kind} {name} is in {document} and did not run"));
        }
        for name in ran.difference(known) {
            report.fault(format!("{kind} {name} is not in {document}"));
        }
    }
}

fn names_in(text: &str, section: &str) -> BTreeSet<String> {
    let section = text.lines().skip_while(|line| *line != section).skip(1);
    section
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: Listed = Listed {
        document: "docs/concurrency.md",
        section: "## Models",
        kind: "model",
    };

    #[test]
    fn names_are_read_from_their_section_only() {
        let text = "| `lock` | x |\n## Models\n\n| model |\n|---|\n| `b` | x |\n| `a` | `c` |\n## Next\n| `d` |\n";
        let names: Vec<String> = names_in(text, LISTED.section).into_iter().collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn a_section_without_names_and_a_document_that_is_not_there_are_refused() {
        let workspace = Workspace::locate();
        assert!(LISTED.names(&workspace).is_ok());
        let section = "## Nothing of the kind";
        let empty = Listed { section, ..LISTED }.names(&workspace);
        assert!(empty.is_err_and(|reason| reason.contains("no model under")));
        let document = "docs/nothing.md";
        assert!(Listed { document, ..LISTED }.names(&workspace).is_err());
    }

    #[test]
    fn what_only_one_side_knows_is_a_fault() {
        let known = BTreeSet::from(["a", "b"].map(String::from));
        for (ran, faults) in [
            (vec!["a", "b"], 0),
            (vec!["a"], 1),
            (vec!["a", "b", "c"], 1),
            (vec![], 2),
        ] {
            let mut report = Report::default();
            LISTED.compare(&known, ran.into_iter(), &mut report);
            assert_eq!(report.faults().len(), faults);
        }
    }
}
