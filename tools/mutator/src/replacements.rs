//! What replaces an operator or the result of a function.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{BinOp, Type};

/// Returns the operators that replace one.
pub fn of_operator(operator: &BinOp) -> Vec<TokenStream> {
    match operator {
        BinOp::Eq(_) => vec![quote!(!=)],
        BinOp::Ne(_) => vec![quote!(==)],
        BinOp::And(_) => vec![quote!(||)],
        BinOp::Or(_) => vec![quote!(&&)],
        BinOp::Lt(_) => vec![quote!(==), quote!(>), quote!(<=)],
        BinOp::Le(_) => vec![quote!(>), quote!(<)],
        BinOp::Gt(_) => vec![quote!(==), quote!(<), quote!(>=)],
        BinOp::Ge(_) => vec![quote!(<), quote!(>)],
        BinOp::Add(_) => vec![quote!(-), quote!(*)],
        BinOp::Sub(_) => vec![quote!(+), quote!(/)],
        BinOp::Mul(_) => vec![quote!(+), quote!(/)],
        BinOp::Div(_) => vec![quote!(%), quote!(*)],
        BinOp::Rem(_) => vec![quote!(/), quote!(+)],
        BinOp::BitOr(_) => vec![quote!(&), quote!(^)],
        BinOp::BitAnd(_) => vec![quote!(|), quote!(^)],
        BinOp::Shl(_) => vec![quote!(>>)],
        BinOp::Shr(_) => vec![quote!(<<)],
        BinOp::AddAssign(_) => vec![quote!(-=), quote!(*=)],
        BinOp::SubAssign(_) => vec![quote!(+=), quote!(/=)],
        BinOp::MulAssign(_) => vec![quote!(+=)],
        BinOp::BitOrAssign(_) => vec![quote!(&=), quote!(^=)],
        BinOp::BitAndAssign(_) => vec![quote!(|=)],
        BinOp::ShlAssign(_) => vec![quote!(>>=)],
        _ => Vec::new(),
    }
}

/// Returns values that replace the result of a function of this type. A value that the type does
/// not have makes a mutant that does not compile, which is left out.
pub fn of_result(result: &Type) -> Vec<TokenStream> {
    let written = result.to_token_stream().to_string().replace(' ', "");
    match &*written {
        "bool" => vec![quote!(true), quote!(false)],
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => vec![quote!(0), quote!(1)],
        "String" => vec![quote!(String::new()), quote!("xyzzy".into())],
        "&str" | "&'staticstr" => vec![quote!(""), quote!("xyzzy")],
        "Option<bool>" => vec![quote!(None), quote!(Some(true)), quote!(Some(false))],
        _ if written.starts_with("Option<") => vec![quote!(None)],
        _ if written.starts_with("Result<") => vec![quote!(Ok(Default::default()))],
        // Of a name or a list. References and traits have no default.
        _ if written.starts_with(|c: char| c.is_ascii_uppercase()) => {
            vec![quote!(Default::default())]
        }
        _ => Vec::new(),
    }
}
