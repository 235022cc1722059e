//! Plans for tests.

use crate::{Cell, ModelError, Plan};

/// What stands above the grids: a lab of three hosts, of which `reflectors` send back.
pub(super) fn plan_of(reflectors: &str, rest: &str) -> Result<Plan, ModelError> {
    let lab = "name = \"t\"\n[lab]\nkind = \"netns\"\nhosts = 3\n[roles]\ninitiator = \"a\"\n";
    Plan::parse("t.toml", &format!("{lab}reflectors = [{reflectors}]\n{rest}"))
}

pub(super) fn plan(rest: &str) -> Result<Plan, ModelError> {
    plan_of("\"b\"", rest)
}

pub(super) fn cells(rest: &str) -> Vec<Cell> {
    plan(rest).unwrap().cells().unwrap()
}

/// Each of these plans is refused by one line with these words.
pub(super) fn assert_refused<'a>(plans: impl IntoIterator<Item = (impl AsRef<str>, &'a str)>) {
    for (rest, words) in plans {
        let rest = rest.as_ref();
        let text = plan(rest).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{rest}: {text}");
    }
}
