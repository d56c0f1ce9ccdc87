//! Tests of names: what is accepted, what is told apart, what fits.

use proptest::prelude::*;

use super::*;
use crate::schema::{RESOURCE_NAME_MAX, SUBDOMAIN_MAX};

fn hub(text: &str) -> HubId {
    HubId::try_from(text).unwrap()
}

fn cluster(text: &str) -> ClusterName {
    ClusterName::try_from(text).unwrap()
}

#[test]
fn dns_labels_are_accepted_and_everything_else_is_refused() {
    let longest = "a".repeat(63);
    for good in ["a", "7", "a-b", "0-0", "xn--p1ai", longest.as_str()] {
        assert_eq!(cluster(good).as_str(), good);
        assert_eq!(hub(good).to_string(), good);
    }
    let too_long = "a".repeat(64);
    for bad in ["", "-", "-a", "a-", "A", "a.b", "a_b", "a/b", " a", "a\n", "ä", too_long.as_str()] {
        assert!(ClusterName::try_from(bad).is_err(), "{bad:?}");
        assert!(HubId::try_from(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn revisions_are_lower_case_hex() {
    let longest = "f".repeat(64);
    for good in ["0", "00ff", longest.as_str()] {
        assert_eq!(Revision::try_from(good).unwrap().as_str(), good);
    }
    let too_long = "f".repeat(65);
    for bad in ["", "00FF", "g", "0x1", "1.2", too_long.as_str()] {
        assert!(Revision::try_from(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn an_error_shows_the_text_and_says_what_to_write() {
    let error = ClusterName::try_from("Berlin").unwrap_err().to_string();
    assert!(error.contains("\"Berlin\"") && error.contains("lower-case"), "{error}");
    let error = HubId::try_from("x".repeat(10_000)).unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
}

#[test]
fn an_owner_hash_is_what_other_programs_compute() {
    // printf '\0\0\0\0\0\0\0\4main\0\0\0\0\0\0\0\6team-a\0\0\0\0\0\0\0\4shop' | sha256sum | cut -c1-32
    assert_eq!(
        OwnerHash::new(&hub("main"), "team-a", "shop").to_string(),
        "2da128378a04a5dabe2adb1d0f939249"
    );
}

#[test]
fn an_owner_hash_tells_parts_from_each_other() {
    let base = OwnerHash::new(&hub("ab"), "cd", "ef");
    for (h, namespace, name) in
        [("a", "bcd", "ef"), ("ab", "c", "def"), ("ab", "cde", "f"), ("ab", "ef", "cd")]
    {
        assert_ne!(OwnerHash::new(&hub(h), namespace, name), base, "{h} {namespace} {name}");
    }
}

#[test]
fn an_owner_is_read_back_from_its_label_key_only() {
    let owner = OwnerHash::new(&hub("main"), "team-a", "shop");
    let key = owner.label_key();
    assert_eq!(key, format!("owner.vidra.dev/{owner}"));
    assert_eq!(OwnerHash::from_label_key(&key), Some(owner.clone()));
    let others = [
        owner.to_string(),
        format!("vidra.dev/{owner}"),
        format!("{key}0"),
        key[..key.len() - 1].to_owned(),
        key.to_uppercase(),
        format!("owner.vidra.dev/{}", "g".repeat(32)),
    ];
    for other in others {
        assert_eq!(OwnerHash::from_label_key(&other), None, "{other}");
    }
}

#[test]
fn a_field_manager_is_readable_up_to_128_bytes_and_hashed_beyond() {
    assert_eq!(field_manager(&hub("main"), "team-a", "shop"), "vidra/main/team-a/shop");
    let name = "n".repeat(128 - "vidra/main/team-a/".len());
    assert_eq!(field_manager(&hub("main"), "team-a", &name), format!("vidra/main/team-a/{name}"));
    let longer = format!("{name}n");
    let hashed = field_manager(&hub("main"), "team-a", &longer);
    assert_eq!(hashed, format!("vidra/main/{}", OwnerHash::new(&hub("main"), "team-a", &longer)));
}

#[test]
fn the_longest_names_fit_into_an_object_name() {
    let (resource, cluster) = ("r".repeat(RESOURCE_NAME_MAX), cluster(&"c".repeat(63)));
    let revision = Revision::try_from("f".repeat(64)).unwrap();
    for name in [
        target_name(&resource, cluster.as_str()),
        inventory_name(&resource, cluster.as_str(), 99_999_999),
        revision_secret_name(&resource, revision.as_str()),
        revision_part_name(&resource, revision.as_str(), 99),
    ] {
        assert!(name.len() <= SUBDOMAIN_MAX, "{} characters: {name}", name.len());
    }
    assert!(field_manager(&hub(&"h".repeat(63)), &"n".repeat(63), &resource).len() <= 128);
}

#[test]
fn a_revision_is_read_off_the_names_of_all_its_secrets_and_of_no_others() {
    for resource in ["shop", "shop.eu", "shop.00ff"] {
        for name in [revision_secret_name(resource, "00ff"), revision_part_name(resource, "00ff", 2)] {
            assert_eq!(revision_in_secret_name(resource, &name), Some("00ff"), "{name}");
        }
    }
    assert_eq!(revision_in_secret_name("shop", "shopping.00ff"), None);
    assert_eq!(revision_in_secret_name("shop", "shop"), None);
}

#[test]
fn a_name_is_found_in_a_map_by_its_text_and_clones_share_it() {
    let name = cluster("berlin");
    let copy = name.clone();
    assert!(Arc::ptr_eq(&name.0, &copy.0));
    let map = std::collections::BTreeMap::from([(name, 1)]);
    assert_eq!(map.get("berlin"), Some(&1));
}

proptest! {
    #[test]
    fn a_target_name_is_of_one_resource_and_one_cluster(
        resource in "[a-z0-9]{1,8}(\\.[a-z0-9]{1,8}){0,3}",
        name in "[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?",
    ) {
        let joined = target_name(&resource, cluster(&name).as_str());
        prop_assert_eq!(joined.rsplit_once('.'), Some((resource.as_str(), name.as_str())));
    }

    #[test]
    fn a_parsed_cluster_name_is_a_dns_label(text in "[-a-zA-Z0-9._]{0,70}") {
        if let Ok(name) = ClusterName::try_from(text.clone()) {
            prop_assert_eq!(name.as_str(), text.as_str());
            prop_assert!(text.len() <= 63 && !text.contains(['.', '_']) && !text.is_empty());
            prop_assert_eq!(text.to_lowercase(), text.clone());
            prop_assert_eq!(text.trim_matches('-'), text.as_str());
        }
    }

    #[test]
    fn different_owners_have_different_field_managers(
        one in ("[a-z]{1,63}", "[a-z]{1,63}", "[a-z.]{1,180}"),
        two in ("[a-z]{1,63}", "[a-z]{1,63}", "[a-z.]{1,180}"),
    ) {
        let manager = |o: &(String, String, String)| field_manager(&hub(&o.0), &o.1, &o.2);
        prop_assert!(manager(&one).len() <= 128);
        prop_assert_eq!(manager(&one) == manager(&two), one == two);
    }
}
