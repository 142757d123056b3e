//! What counters distinguish: closed sets of words, each the values of one label.

use crate::domain::classify::finding::Class;

/// A value of a label.
pub(super) trait Label {
    /// The name of the label.
    const NAME: &'static str;

    /// Returns the word of each value, in their order.
    fn words() -> Vec<String>;

    /// Returns the place of the value in this order.
    fn place(self) -> usize;
}

macro_rules! labels {
    ($(
        $(#[doc = $about:literal])+
        $label:ident $name:literal {
            $($(#[doc = $meaning:literal])+ $value:ident $word:literal;)+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub enum $label {
                $($(#[doc = $meaning])+ $value,)+
            }

            impl $label {
                /// Returns the word for labels and spans.
                pub fn word(self) -> &'static str {
                    match self {
                        $($label::$value => $word,)+
                    }
                }
            }

            impl Label for $label {
                const NAME: &'static str = $name;

                fn words() -> Vec<String> {
                    vec![$($label::$value.word().to_string()),+]
                }

                fn place(self) -> usize {
                    self as usize
                }
            }
        )+
    };
}

labels! {
    /// The result of one report.
    ReportResult "result" {
        /// The report changed a record.
        Changed "changed";
        /// The report repeated the stored status.
        Repeated "repeated";
        /// The report was refused.
        Rejected "rejected";
    }

    /// The result of one commit.
    CommitResult "result" {
        /// The commit is durable.
        Ok "ok";
        /// Another writer committed first.
        Conflict "conflict";
        /// The store reported an error other than a conflict.
        Failed "failed";
    }

    /// Why a connection was refused, or ended in favour of another one.
    ConnectionEnd "reason" {
        /// Every place has an open call.
        Full "full";
        /// The peer already has its share.
        Share "share";
        /// The client did not complete the HTTP/2 handshake in time.
        Unfinished "unfinished";
        /// The connection had no open call for the longest time.
        Idle "idle";
        /// A connection of the ops port had to end for another one of it.
        Ops "ops";
    }

    /// What was ended because its peer took nothing of an answer.
    UntakenEnd "what" {
        /// A stream of HTTP/2.
        Stream "stream";
        /// A connection.
        Connection "connection";
    }

    /// Why a call is refused before its handler.
    SecurityRefusal "reason" {
        /// The caller is not known.
        Credentials "credentials";
        /// The caller may not do this.
        Rights "rights";
    }

    /// Why the copy of a relay starts over.
    ResyncCause "cause" {
        /// The digest of the upstream is not that of the copy.
        Digest "digest";
        /// The upstream sent what this version cannot read.
        Malformed "malformed";
        /// The upstream cannot continue from the last proof.
        Token "token";
        /// The upstream is behind the copy.
        Behind "behind";
    }

    /// Where the server panicked.
    PanicPlace "place" {
        /// In the handler of a call.
        Call "call";
        /// In the task of an application.
        Application "application";
    }

    /// Work beside the threads that serve connections.
    OffloadedWork "work" {
        /// A large request is decoded.
        Decode "decode";
        /// A large answer is rendered.
        Render "render";
        /// A list of the status page is rendered, once for all callers.
        Page "page";
        /// The needs of all applications are followed.
        Blockers "blockers";
        /// The applications of namespaces are counted.
        Namespaces "namespaces";
    }
}

impl Label for Class {
    const NAME: &'static str = "class";

    fn words() -> Vec<String> {
        Class::ALL.iter().map(|class| class.word().to_ascii_lowercase()).collect()
    }

    fn place(self) -> usize {
        self as usize
    }
}
