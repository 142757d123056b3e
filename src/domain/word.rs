//! Enums whose values have a word each.

/// Declares an enum from lines that read like a table: each value with its word.
macro_rules! worded {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$meaning:meta])* $value:ident = $word:literal,)+
        }
    ) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$meaning])* $value,)+
        }

        impl $name {
            /// Every value, in the order of the declaration.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$value),+];

            /// Returns the word.
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$value => $word,)+
                }
            }
        }
    };
}

pub(in crate::domain) use worded;
