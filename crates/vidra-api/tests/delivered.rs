//! When a VidraTarget has just what it asks for.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use vidra_api::{OverrideInputs, VidraTarget, VidraTargetSpec, VidraTargetStatus};

#[test]
fn what_went_with_its_target_is_news_when_that_is_wanted_again() {
    let spec = VidraTargetSpec { revision: "r".into(), namespace: "shop".into(), ..Default::default() };
    let status = VidraTargetStatus {
        revision: Some("r".into()),
        namespace: Some("shop".into()),
        ..Default::default()
    };
    let mut target = VidraTarget::new("shop.berlin", spec);
    assert!(!target.is_delivered());
    target.status = Some(status);
    assert!(target.is_delivered());
    let news: [fn(&mut VidraTargetSpec); 4] = [
        |spec| spec.recalls = 1,
        |spec| spec.namespace = "other".into(),
        |spec| spec.revision = "s".into(),
        |spec| spec.overrides = Some(OverrideInputs::default()),
    ];
    for change in news {
        let mut other = target.clone();
        change(&mut other.spec);
        assert!(!other.is_delivered(), "{:?}", other.spec);
    }
    // A version wrote it that tells of the revision alone.
    target.status.as_mut().unwrap().namespace = None;
    target.spec.namespace = "other".into();
    assert!(target.is_delivered());
}
