//! The rows of the tables of factors.

/// Where a value goes: `Ends(idle.udp = whole)` sets this field of each end to the value as `whole` reads it. Instead of a field
/// there may be a closure that sets, or the name of a function.
macro_rules! sets {
    ($into:ident,) => {
        $crate::factor::Sets::$into
    };
    ($into:ident, $($field:ident).+ = $read:expr) => {
        sets!($into, |all, value| all.$($field).+ = $read(value)?)
    };
    ($into:ident, |$all:ident, $value:ident| $set:expr) => {
        $crate::factor::Sets::$into(|$all, $value| {
            $set;
            Ok(())
        })
    };
    ($into:ident, $set:path) => {
        $crate::factor::Sets::$into($set)
    };
}

/// Methods of a definition that set a field: `name(FIELD: TYPE)`.
macro_rules! setters {
    ($($name:ident($field:ident: $type:ty)),+) => {
        $(pub(in $crate::factor) const fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        })+
    };
}

/// A table of factors: key, type and where the value goes, then what differs from [`Factor::new`]; below it a row for each flag:
/// `flag "name"`, the name of its value in help (of a flag without one what it gives), the commands that have it, the heading,
/// the help text, then what differs from [`Flag::new`].
macro_rules! factors {
    ($table:ident = $(
        $name:literal $kind:ident $into:ident($($set:tt)*) $(, $clause:ident($($with:expr),*))*;
        $(flag $long:literal $(= $gives:literal)? $(<$value:ident>)? on $on:tt $heading:ident $help:literal
            $(, $more:ident($($detail:expr),*))*;)*
    )+) => {
        pub(super) static $table: &[$crate::factor::Factor] = &[$(
            $crate::factor::Factor::new($name, $crate::factor::ValueType::$kind, sets!($into, $($set)*))
                $(.$clause($($with),*))*
                .flags(&[$(
                    $crate::factor::Flag::new($long, probes!($on), $heading, $help)
                        $(.gives($crate::factor::Gives::Word($gives)))?
                        $(.value(stringify!($value)))?
                        $(.$more($($detail),*))*
                ),*])
        ),+];
    };
}

/// Some probes, or a list of them that has a name.
macro_rules! probes {
    ([$($probe:ident),+]) => { &[$($probe),+] };
    ($list:ident) => { $list };
}
