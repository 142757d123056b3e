//! What a method asks of its caller.

use super::Role;

/// What a method asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Nothing, for the server as a whole; `Read` for an application.
    Anyone,
    /// To be known.
    Known,
    /// To act as the unit of the request; an empty unit needs a worker of all units.
    Unit,
    /// To act as the unit of the request; without a unit it needs an operator.
    UnitOrOperator,
    /// To read the application.
    Read,
    /// To read the data of the application.
    Data,
    /// To read every application that is asked for.
    List,
    /// To be an operator of the application.
    Operate,
}

impl Right {
    /// Returns the roles of which a caller needs one at least; `None` if it needs no role. A caller
    /// without any is refused before its request is read.
    pub fn roles(self) -> Option<&'static [Role]> {
        use Role::{Operator, Reader, Worker};
        match self {
            Right::Anyone | Right::Known => None,
            Right::Unit => Some(&[Worker]),
            Right::UnitOrOperator => Some(&[Worker, Operator]),
            Right::Read | Right::Data | Right::List => Some(&[Worker, Reader, Operator]),
            Right::Operate => Some(&[Operator]),
        }
    }

    /// Returns who has the right, for the documentation.
    pub fn words(self) -> &'static str {
        match self {
            Right::Anyone => "any caller",
            Right::Known => "any known caller",
            Right::Unit => "worker of the unit",
            Right::UnitOrOperator => "worker of the unit; operator if empty",
            Right::Read => "worker, reader, operator",
            Right::Data => "worker, reader with `data`, operator",
            Right::List => "reader, operator of all of it",
            Right::Operate => "operator",
        }
    }
}
