//! The command line.

use std::path::PathBuf;

use crate::group::{GROUPS, Group};
use crate::paired::Effort;
use crate::row::{Judge, Outcome};

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Bench(Options),
    /// The memory of so many folios of a size, for who asks in another process.
    State(u64, u64),
    /// So many turns of a hot path, for who counts them.
    Hot(String, u32),
    Help,
}

/// How a run is made.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) effort: Effort,
    pub(crate) json: Option<PathBuf>,
    /// Whether what was found is kept in the repository.
    pub(crate) record: bool,
    only: Option<String>,
}

impl Options {
    /// Whether all rows are asked for.
    pub(crate) const fn is_whole(&self) -> bool {
        self.only.is_none()
    }

    /// Whether distributions are to be seen.
    pub(crate) fn wants_pictures(&self) -> bool {
        self.only.as_deref().is_none_or(|only| only == "decide")
    }

    /// What was called, as one would type it.
    pub(crate) fn command(&self) -> String {
        let quick = match self.effort {
            Effort::Quick => " --quick",
            Effort::Full => "",
        };
        format!("cargo xtask bench{quick} --record")
    }

    pub(crate) fn wants(&self, group: &Group) -> bool {
        let Some(only) = &self.only else {
            return true;
        };
        group.name == only || group.ids.contains(&only.as_str())
    }

    pub(crate) fn wants_row(&self, outcome: &Outcome) -> bool {
        let Some(only) = &self.only else {
            return true;
        };
        outcome.id() == only || GROUPS.iter().any(|group| group.name == only)
    }

    /// A group that has guards and is called by its name is held to those; rows and
    /// whole runs to their goals.
    pub(crate) fn judge(&self, group: &Group) -> Judge {
        match &self.only {
            Some(only) if group.is_guarded && group.name == only => Judge::Guards,
            _ => Judge::Goals,
        }
    }
}

pub(crate) fn parse(words: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut options = Options {
        effort: Effort::Full,
        json: None,
        record: false,
        only: None,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = |what: &str| words.next().ok_or(format!("{word} needs {what}"));
        match word.as_str() {
            "--help" => return Ok(Command::Help),
            "--state" => {
                let number =
                    |text: String| text.parse().map_err(|_| format!("`{text}`: no number"));
                let folios = number(value("a number of folios")?)?;
                return Ok(Command::State(folios, number(value("a size")?)?));
            }
            "--hot" => {
                let (name, turns) = (value("a name")?, value("a number of turns")?);
                let turns = turns.parse().map_err(|_| format!("`{turns}`: no number"))?;
                return Ok(Command::Hot(name, turns));
            }
            "--record" => options.record = true,
            "--quick" => options.effort = Effort::Quick,
            "--json" => options.json = Some(value("a file")?.into()),
            "--only" if options.only.is_some() => return Err("--only is there twice".into()),
            "--only" => options.only = Some(value("a name")?),
            _ => return Err(format!("`{word}` is not understood here")),
        }
    }
    if let Some(only) = &options.only
        && !GROUPS.iter().any(|group| options.wants(group))
    {
        return Err(format!("nothing is called `{only}`"));
    }
    Ok(Command::Bench(options))
}

pub(crate) fn usage() -> String {
    let groups = GROUPS.iter().map(|group| {
        let ids = group.ids.join(" ");
        format!("\n  {:14} {} (rows {ids})", group.name, group.what)
    });
    std::iter::once(String::from(
        "usage: cargo xtask bench [--quick] [--json FILE] [--only NAME] [--record]\n\n--record keeps a \
         whole run in BENCHMARKS.md with its pictures, and counts in counts.tsv.\n\nNAME is a group, \
         or the number of a row:",
    ))
    .chain(groups)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    fn groups(line: &str) -> Vec<&'static str> {
        let Ok(Command::Bench(options)) = parsed(line) else {
            return Vec::new();
        };
        let wanted = GROUPS.iter().filter(|group| options.wants(group));
        wanted.map(|group| group.name).collect()
    }

    #[test]
    fn groups_are_chosen_by_name_and_by_row() {
        assert_eq!(groups("--only decide"), ["decide"]);
        assert_eq!(groups("--only extent-buffer"), ["extent-buffer"]);
        assert_eq!(groups("--only index"), ["index"]);
        assert_eq!(groups("--quick --only 3"), ["decide"]);
        assert_eq!(groups("").len(), GROUPS.len());
    }

    #[test]
    fn what_is_not_known_is_named_in_the_refusal() {
        for (line, said) in [
            ("--only encode", "`encode`"),
            ("--only", "--only needs a name"),
            ("--fast", "`--fast`"),
            ("--only 3 --only 4", "twice"),
        ] {
            assert!(parsed(line).unwrap_err().contains(said), "{line}");
        }
    }
}
