//! Doubtful tokens, signed by a key of the test.

use std::time::UNIX_EPOCH;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::*;

/// An issuer with one key on P-256.
struct Signer {
    pair: EcdsaKeyPair,
    file: tempfile::NamedTempFile,
}

impl Signer {
    fn new(kid: &str) -> Signer {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = pair.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..65]));
        let key = json!({"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": kid, "alg": "ES256"});
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json!({"keys": [key]}).to_string()).unwrap();
        Signer { pair, file }
    }

    fn issuer(&self, name: &str, issuer: &str) -> Arc<Reloaded<Issuer>> {
        let keys = KeySource::File(self.file.path().to_path_buf());
        let (name, issuer) = (name.to_string(), issuer.to_string());
        let algorithms = default_algorithms();
        let (keys_ca, keys_token_file) = (None, None);
        let audience = "bellwether".into();
        let issuer = Issuer { name, issuer, audience, keys, keys_ca, keys_token_file, algorithms };
        Reloaded::open(issuer).unwrap()
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| BASE64.encode(part.to_string()));
        let text = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", BASE64.encode(signature.as_ref()))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer", "aud": ["bellwether"], "sub": "system:serviceaccount:prod:web",
        "exp": now() + 600, "nbf": now() - 5, "iat": now() - 5,
        "kubernetes.io": {"namespace": "prod", "pod": {"name": "web-7f9c", "uid": "u"},
            "serviceaccount": {"name": "web", "uid": "s"}}
    })
}

fn header() -> Value {
    json!({"alg": "ES256", "kid": "k1", "typ": "JWT"})
}

fn with(mut value: Value, key: &str, to: Value) -> Value {
    value[key] = to;
    value
}

fn without(mut value: Value, key: &str) -> Value {
    value.as_object_mut().unwrap().remove(key);
    value
}

#[test]
fn a_token_of_kubernetes_names_account_and_pod() {
    let signer = Signer::new("k1");
    let issuers = [signer.issuer("k8s", "https://issuer")];
    let identity = identify(&issuers, &signer.sign(&header(), &claims())).unwrap();
    let principal = &identity.principal;
    assert_eq!(principal.to_string(), "jwt:k8s:system:serviceaccount:prod:web");
    assert_eq!((&*principal.facts["namespace"], &*principal.facts["pod"]), ("prod", "web-7f9c"));
    let ends = identity.ends.unwrap().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!((now() + 625..=now() + 630).contains(&ends));
}

#[test]
fn every_doubtful_token_is_refused() {
    let signer = Signer::new("k1");
    let issuers = [signer.issuer("k8s", "https://issuer")];
    let strange = Signer::new("k1");
    let is_refused =
        |header: &Value, claims: &Value| identify(&issuers, &signer.sign(header, claims)).is_err();
    assert!(!is_refused(&header(), &claims()));
    let text = |number: u64| json!(number.to_string());
    for (key, value) in [
        ("exp", text(now() + 600)),
        ("exp", json!(now() - 31)),
        ("exp", json!(1_u64 << 63)),
        ("exp", json!(-1)),
        ("exp", json!(null)),
        ("nbf", text(now())),
        ("nbf", json!(now() + 60)),
        ("nbf", json!(1_u64 << 63)),
        ("aud", json!("other")),
        ("aud", json!(["other", "kubernetes"])),
        ("aud", json!([])),
        ("iss", json!("https://other")),
        ("iss", json!(["https://issuer"])),
        ("sub", json!("")),
        ("sub", json!("a*")),
        ("sub", json!("a\nb")),
        ("sub", json!(["a"])),
    ] {
        assert!(is_refused(&header(), &with(claims(), key, value.clone())), "{key}: {value}");
    }
    for key in REQUIRED {
        assert!(is_refused(&header(), &without(claims(), key)), "{key}");
    }
    for (key, value) in [
        ("alg", json!("none")),
        ("alg", json!("HS256")),
        ("alg", json!("RS256")),
        ("alg", json!("ES384")),
        ("kid", json!("k2")),
        ("kid", json!("../../k1")),
        ("crit", json!(["exp"])),
        ("crit", json!(["b64", "http://example.org/unknown"])),
        ("crit", json!([])),
    ] {
        assert!(is_refused(&with(header(), key, value.clone()), &claims()), "{key}: {value}");
    }
    assert!(identify(&issuers, &strange.sign(&header(), &claims())).is_err());
    let token = signer.sign(&header(), &claims());
    let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
    for token in [&*unsigned, "", ".", "..", "a.b.c", &"a".repeat(20_000)] {
        assert!(identify(&issuers, token).is_err(), "{token}");
    }
}

#[test]
fn the_public_key_is_never_a_secret() {
    use aws_lc_rs::hmac;
    let signer = Signer::new("k1");
    let issuers = [signer.issuer("k8s", "https://issuer")];
    let der = signer.pair.public_key().as_der().unwrap();
    let secrets = [der.as_ref().to_vec(), signer.pair.public_key().as_ref().to_vec()];
    for secret in secrets {
        let header = with(header(), "alg", json!("HS256"));
        let text = [&header, &claims()].map(|part| BASE64.encode(part.to_string())).join(".");
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &secret), text.as_bytes());
        let token = format!("{text}.{}", BASE64.encode(tag.as_ref()));
        assert!(identify(&issuers, &token).is_err());
    }
    let issuer = Issuer {
        name: "k8s".into(),
        issuer: "i".into(),
        audience: "a".into(),
        keys: KeySource::File(signer.file.path().into()),
        keys_ca: None,
        keys_token_file: None,
        algorithms: vec!["HS256".into()],
    };
    let Err(error) = Reloaded::open(issuer) else { panic!("HS256 is accepted") };
    assert!(error.to_string().contains("is not accepted"), "{error}");
}

#[test]
fn the_reason_that_says_most_is_reported_in_any_order_of_issuers() {
    let (one, two) = (Signer::new("k1"), Signer::new("k1"));
    let own = one.issuer("own", "https://issuer");
    let foreign = [two.issuer("two", "https://two"), one.issuer("twin", "https://twin")];
    for (key, value, reason) in [
        ("exp", json!(now() - 31), "it has expired"),
        ("aud", json!("other"), "it is for another audience"),
        ("iss", json!("https://other"), "it is of another issuer"),
    ] {
        let token = one.sign(&header(), &with(claims(), key, value));
        for other in &foreign {
            for issuers in [[own.clone(), other.clone()], [other.clone(), own.clone()]] {
                assert_eq!(identify(&issuers, &token), Err(Refusal::BadJwt(reason)));
            }
        }
    }
    let token = one.sign(&with(header(), "kid", json!("k2")), &claims());
    assert_eq!(identify(&[own], &token), Err(Refusal::BadJwt("no key fits it")));
}

#[test]
fn two_issuers_with_one_kid_stay_apart() {
    let (one, two) = (Signer::new("k1"), Signer::new("k1"));
    let issuers = [one.issuer("one", "https://one"), two.issuer("two", "https://two")];
    let of = |issuer: &str| with(claims(), "iss", json!(issuer));
    let known = |signer: &Signer, issuer| identify(&issuers, &signer.sign(&header(), &of(issuer)));
    let subject = "system:serviceaccount:prod:web";
    let name = |identity: Identity| identity.principal.to_string();
    assert_eq!(name(known(&one, "https://one").unwrap()), format!("jwt:one:{subject}"));
    assert_eq!(name(known(&two, "https://two").unwrap()), format!("jwt:two:{subject}"));
    assert!(known(&one, "https://two").is_err());
    assert!(known(&two, "https://one").is_err());
}
