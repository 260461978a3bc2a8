//! Who may read and change.

use std::net::SocketAddr;

use axum::body::Body;

use super::*;
use crate::web::connections::{FORWARDED_FOR, TcpPeer};

const PROXY: Peer = Peer::Proxy {
    user: 33,
    is_known: true,
};
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn access() -> Access {
    Access {
        hosts: vec!["db1.example.com".into()],
        token: Some(Token::parse(TOKEN).unwrap()),
        ..Access::default()
    }
}

fn check(access: &Access, peer: &Peer, request: &str, headers: &[(&str, &str)], expected: &str) {
    let (method, path) = request.split_once(' ').unwrap();
    let mut built = Request::builder()
        .method(method)
        .uri(path)
        .extension(peer.clone());
    for (name, value) in headers {
        built = built.header(*name, *value);
    }
    let right = match path {
        "/demo/again" => Right::PlayAgain,
        "/healthz" => Right::Public,
        _ if path.starts_with("/api/v1/marks/") => Right::OwnJobs,
        _ => Right::Usual,
    };
    let body = if headers.contains(&NO_JSON) {
        "a=b"
    } else {
        ""
    };
    let found = match access.check(right, &built.body(Body::from(body)).unwrap()) {
        Ok(()) => "ok".to_string(),
        Err(problem) => format!("{problem:?}"),
    };
    assert!(
        found.contains(expected),
        "{request} {peer:?} {headers:?}: expected {expected:?} in {found:?}"
    );
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const NO_JSON: (&str, &str) = ("content-type", "text/plain");
const HOST: (&str, &str) = ("host", "127.0.0.1:2692");
const BEARER: (&str, &str) = ("authorization", "bearer 0123456789abcdef0123456789abcdef");
const WRONG: (&str, &str) = ("authorization", "Bearer 0123456789abcdee");

fn at(address: &str) -> Peer {
    let address = SocketAddr::new(address.parse().unwrap(), 40_000);
    Peer::Host(TcpPeer::new(address, address))
}

#[test]
fn only_own_names_are_served() {
    let own = |host: &str| is_own_name(host_name(host), &["db1.example.com".into()]);
    for host in [
        "127.0.0.1",
        "127.0.0.1:2692",
        "[::1]:2692",
        "LOCALHOST:1",
        "10.0.0.5:2692",
        "DB1.example.com:80",
    ] {
        assert!(own(host), "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example:2692",
        "127.0.0.1.evil.example",
        "db1.example.com.evil",
    ] {
        assert!(!own(host), "{host}");
    }
}

#[test]
fn reading_is_free_on_loopback_by_own_names() {
    let access = access();
    check(&access, &at("127.0.0.1"), "GET /jobs", &[HOST], "ok");
    check(
        &access,
        &at("::ffff:127.0.0.1"),
        "HEAD /",
        &[("host", "db1.example.com")],
        "ok",
    );
    check(
        &access,
        &at("127.0.0.1"),
        "GET /",
        &[("host", "evil.example")],
        "has no name",
    );
    check(
        &access,
        &at("127.0.0.1"),
        "GET /",
        &[("host", "evil.example"), BEARER],
        "ok",
    );
    check(
        &access,
        &at("127.0.0.1"),
        "GET /",
        &[("host", "")],
        "has no name",
    );
    check(
        &access,
        &at("127.0.0.1"),
        "GET /",
        &[HOST, ("host", "evil.example")],
        "has no name",
    );
    for peer in [at("10.0.0.5"), PROXY] {
        check(
            &access,
            &peer,
            "GET /",
            &[HOST],
            "Unauthorized(\"this needs the token",
        );
        check(
            &access,
            &peer,
            "GET /",
            &[HOST, WRONG],
            "Unauthorized(\"wrong token",
        );
        check(&access, &peer, "GET /", &[HOST, BEARER], "ok");
        check(
            &access,
            &peer,
            "GET /",
            &[HOST, BEARER, BEARER],
            "Unauthorized",
        );
        check(
            &access,
            &peer,
            "GET /healthz",
            &[("host", "evil.example")],
            "ok",
        );
    }
    check(
        &Access::default(),
        &PROXY,
        "GET /",
        &[HOST],
        "set `token_file`",
    );
}

#[test]
fn changes_over_http_need_the_token_from_wherever() {
    let access = access();
    for peer in [at("127.0.0.1"), at("10.0.0.5"), PROXY] {
        for change in [
            "PUT /api/v1/marks/a",
            "DELETE /api/v1/jobs/1",
            "POST /api/v1/jobs/import",
        ] {
            check(
                &access,
                &peer,
                change,
                &[HOST, JSON],
                "Unauthorized(\"this needs the token",
            );
            check(&access, &peer, change, &[HOST, JSON, BEARER], "ok");
            check(&access, &peer, change, &[HOST, BEARER], "ok");
            let form = [HOST, BEARER, NO_JSON];
            check(&access, &peer, change, &form, "must be JSON");
            check(
                &Access::default(),
                &peer,
                change,
                &[HOST, JSON],
                "set `token_file`",
            );
        }
    }
}

#[test]
fn a_cookie_changes_things_from_own_pages_only() {
    let access = access();
    let cookie = login::cookie(access.token.as_ref().unwrap());
    let cookie = ("cookie", &*cookie);
    check(&access, &PROXY, "GET /", &[HOST, cookie], "ok");
    let own = ("origin", "http://127.0.0.1:2692");
    check(
        &access,
        &PROXY,
        "POST /api/v1/jobs/1/accept",
        &[HOST, JSON, cookie, own],
        "ok",
    );
    for origin in [
        "http://evil.example",
        "null",
        "http://127.0.0.1:2692.evil.example",
    ] {
        let headers = [HOST, JSON, cookie, ("origin", origin)];
        check(
            &access,
            &PROXY,
            "POST /api/v1/jobs/1/accept",
            &headers,
            "of other sites",
        );
    }
    check(
        &access,
        &PROXY,
        "POST /api/v1/jobs/1/accept",
        &[HOST, JSON, cookie],
        "of other sites",
    );
    check(
        &access,
        &PROXY,
        "GET /",
        &[HOST, ("cookie", "cowbell=0123456789abcdef0123456789abcdef")],
        "Unauthorized",
    );
}

#[test]
fn readers_of_a_demo_play_it_again_from_its_own_pages() {
    let access = access();
    let check = |peer: &Peer, headers: &[(&str, &str)], expected: &str| {
        check(&access, peer, "POST /demo/again", headers, expected);
    };
    let own = ("origin", "http://127.0.0.1:2692");
    check(&at("127.0.0.1"), &[HOST, own], "ok");
    check(&at("127.0.0.1"), &[HOST], "of other sites");
    check(
        &at("127.0.0.1"),
        &[HOST, ("origin", "http://evil.example")],
        "of other sites",
    );
    check(
        &at("127.0.0.1"),
        &[("host", "evil.example"), ("origin", "http://evil.example")],
        "has no name",
    );
    check(&at("10.0.0.5"), &[HOST, own], "Unauthorized");
    check(&at("10.0.0.5"), &[HOST, own, BEARER], "ok");
}

#[test]
fn users_of_the_control_socket_may_put_jobs_only() {
    let process = |is_operator| {
        Peer::Process(PeerProcess {
            pid: 1,
            user: 1000,
            is_operator,
        })
    };
    let access = Access::default();
    for change in [
        "DELETE /api/v1/jobs/1",
        "POST /api/v1/jobs/import",
        "PUT /api/v1/jobs/1/certificate",
    ] {
        check(
            &access,
            &process(false),
            change,
            &[JSON],
            "user 1000 may record its own jobs",
        );
        check(&access, &process(true), change, &[JSON], "ok");
    }
    check(
        &access,
        &process(false),
        "PUT /api/v1/marks/run-1",
        &[JSON],
        "ok",
    );
    check(&access, &process(false), "GET /api/v1/status", &[], "ok");
}

#[test]
fn a_guesser_has_to_wait_and_nobody_else() {
    let access = access();
    let guess = |client: &Peer, headers: &HeaderMap| {
        let is_compared = |_: &i32| {
            matches!(
                access.check_guess(false, Some(client), headers),
                Err(Problem::Unauthorized(_))
            )
        };
        let guesses = (0..1_000).filter(is_compared).count();
        assert!((100..200).contains(&guesses), "{guesses}");
    };
    guess(&at("10.0.0.5"), &HeaderMap::new());
    let cookie = login::cookie(access.token.as_ref().unwrap());
    for right in [BEARER, ("cookie", &*cookie)] {
        check(&access, &at("10.0.0.5"), "GET /", &[right], "TooMany");
        check(&access, &at("10.0.0.6"), "GET /", &[right], "ok");
        check(&access, &PROXY, "GET /", &[right], "ok");
    }
    let forwarded = ("x-forwarded-for", "8.8.8.8, 2001:db8::1");
    guess(
        &PROXY,
        &HeaderMap::from_iter([(FORWARDED_FOR, forwarded.1.parse().unwrap())]),
    );
    check(&access, &PROXY, "GET /", &[forwarded, BEARER], "TooMany");
    check(
        &access,
        &PROXY,
        "GET /",
        &[("x-forwarded-for", "2001:db8::2"), BEARER],
        "TooMany",
    );
    check(
        &access,
        &PROXY,
        "GET /",
        &[("x-forwarded-for", "8.8.8.8"), BEARER],
        "ok",
    );
}

#[test]
fn the_second_token_reads_and_changes_nothing() {
    let second = "fedcba9876543210fedcba9876543210";
    let access = Access {
        read_token: Some(Token::parse(second).unwrap()),
        ..access()
    };
    let header = ("authorization", &*format!("Bearer {second}"));
    let cookie = login::cookie(access.read_token.as_ref().unwrap());
    let own = ("origin", "http://127.0.0.1:2692");
    for peer in [at("10.0.0.5"), PROXY] {
        for offered in [header, ("cookie", &*cookie)] {
            for path in ["GET /", "GET /metrics", "GET /api/v1/jobs"] {
                check(&access, &peer, path, &[HOST, offered], "ok");
            }
            for change in ["DELETE /api/v1/jobs/1", "PUT /api/v1/marks/a"] {
                let headers = [HOST, JSON, own, offered];
                check(&access, &peer, change, &headers, "this token only reads");
            }
        }
        check(&access, &peer, "GET /", &[HOST, BEARER], "ok");
        let wrong = ("authorization", "Bearer 00000000000000000000000000000000");
        check(&access, &peer, "GET /", &[HOST, wrong], "Unauthorized");
        check(&access, &peer, "GET /", &[HOST], "Unauthorized");
    }
    let offered = HeaderMap::from_iter([(header::COOKIE, cookie.parse().unwrap())]);
    assert_eq!(access.changes(&offered), ChangeAccess::NeedLogin);
    // Where both files have the same token, it changes.
    let same = Access {
        read_token: Some(Token::parse(TOKEN).unwrap()),
        ..self::access()
    };
    let change = [HOST, JSON, BEARER];
    check(&same, &PROXY, "DELETE /api/v1/jobs/1", &change, "ok");
}

#[test]
fn a_wrong_cookie_is_a_guess() {
    let access = access();
    for _ in 0..200 {
        let _ = access.check_token(
            &Request::builder()
                .extension(PROXY)
                .header("cookie", "cowbell=guess")
                .body(Body::empty())
                .unwrap(),
            true,
        );
    }
    check(&access, &PROXY, "GET /", &[BEARER], "TooMany");
    check(
        &access,
        &PROXY,
        "GET /",
        &[("cookie", "theme=dark")],
        "this needs the token",
    );
}

#[test]
fn a_user_of_this_machine_cannot_pretend_to_be_many_hosts() {
    cannot_pretend(&Peer::Process(PeerProcess {
        pid: 1,
        user: 1000,
        is_operator: false,
    }));
    cannot_pretend(&Peer::Proxy {
        user: 1000,
        is_known: false,
    });
}

fn cannot_pretend(user: &Peer) {
    let access = access();
    let guess = |number: u32, is_right| {
        let address = format!("10.0.{}.{}", number / 256, number % 256);
        let forwarded = (
            super::super::connections::FORWARDED_FOR,
            address.parse().unwrap(),
        );
        access.check_guess(is_right, Some(user), &HeaderMap::from_iter([forwarded]))
    };
    let wrong =
        (0..300).filter(|number| matches!(guess(*number, false), Err(Problem::Unauthorized(_))));
    assert!(wrong.count() <= 110);
    assert!(matches!(guess(300, true), Err(Problem::TooMany(_))));
    // Another host still may, also through the proxy.
    check(
        &access,
        &PROXY,
        "GET /",
        &[("x-forwarded-for", "10.0.0.1"), BEARER],
        "ok",
    );
    let other = at("10.0.0.1");
    assert!(
        access
            .check_guess(true, Some(&other), &HeaderMap::new())
            .is_ok()
    );
}
