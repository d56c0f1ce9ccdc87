//! Mistakes put in on purpose, that tests must notice: the simulation those of [`Mutant::ALL`], and for each of
//! [`Mutant::GUARDS`], which take away what keeps a promise of docs/reference/safety.md, the test that is named there.
//! A test chooses one for its own thread, on which a whole run of the simulation happens; a process as a whole makes the
//! one that the variable `VIDRA_MUTANT` names. They are there where debug assertions are; in a release no mistake can be
//! chosen, and the compiler drops what it would do.

#[cfg(debug_assertions)]
use std::cell::Cell;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A list on the hub that fails is taken for an empty one.
    DeleteOnFailedList,
    /// Nothing guards that an object which is written to is the one that was looked at.
    NoUidPrecondition,
    /// The resource loop writes VidraTargets' statuses too.
    SecondStatusWriter,
    /// What a relist shows wakes nobody.
    EventsLostAtRelist,
    /// Ready is written before anything is applied.
    ReadyBeforeApplied,
    /// An object that others made is taken over, whether that is asked for or not.
    AdoptUnasked,
    /// An object that is to be kept is deleted all the same.
    PruneKept,
    /// Drift that is only to be told is undone at the next look, such as that of the interval.
    ReportRepairs,
    /// An apply to a live object writes what is to be left to others.
    WriteIgnored,
    /// A plan names no objects for the inventory before they are made.
    NoIntent,
    /// A plan deletes Namespaces and CRDs as it deletes ConfigMaps, with what is in them.
    DeleteContainers,
    /// A change of the declaration is not applied.
    ChangeSkipped,
    /// What arrives for a key while it is worked on is forgotten.
    ArrivalLost,
    /// Any approval approves any removal.
    ApprovesAnything,
    /// A MemberCluster that is not there confirms whatever its targets ask for.
    MissingMemberConfirms,
    /// An entry of an inventory is proof enough for a deletion.
    UntracedDeleted,
    /// Nobody looks whether a cluster is a member under another name.
    TwinsAdmitted,
    /// A hub that is behind writes before it has looked at all that it has on a member.
    WritesBeforeLooks,
    /// The leave to call a member counts for ever.
    FenceForEver,
    /// What is late counts as what is new.
    NoFloors,
    /// Whatever a cluster calls itself is its identity.
    AnyUid,
    /// While the setting `redact` cannot be read, nothing is withheld.
    RedactsNothing,
    /// What a member sends may take any amount of memory.
    UnboundedValue,
    /// What is to be replaced goes before what replaces it may come.
    RemovesWhileWaiting,
    /// A watch may send as much as it likes.
    FloodGoesOn,
    /// Whatever stands in a stamp is the hub's.
    AnyStamp,
    /// What is where a member does not allow its namespace any more goes, whatever onRevoke says and however much it is.
    RevokedGoes,
    /// What holds a VidraResource holds up its target on a member that leaves.
    RestHoldsLeaving,
    /// A VidraTarget that somebody deletes is let go though it cannot be made again, and the guard counts one less.
    GuardForgets,
    /// The guard of targets does not count one that was deleted by hand and could not be made again.
    GuardForgetsRemade,
    /// What restrains the hub waits for a manifest that can be read.
    PoliciesWait,
    /// What restrains the hub waits until it is written into the VidraTarget.
    RestraintsWritten,
    /// What approved a drop of most objects approves the same drop later.
    SameDropApproved,
    /// What approved a drop of most objects approves it in another namespace.
    WordMovesAlong,
    /// An approval is taken off whatever the annotation says by now.
    WordUnread,
    /// What is deleted is named by its uid alone.
    DeletesByUid,
    /// Who was refused an object for another VidraResource is not told that this one has let go of it.
    RefusedUntold,
    /// What a watch told during a call goes with any list that does not show the object.
    UnlistedCounts,
    /// What goes does so by the policy that was delivered with the revision.
    GoesByOldPolicy,
    /// What has lost its stamp is declared otherwise by any other revision.
    RevisionRepairs,
    /// A write of one target that is refused ends the pass, for all others.
    RefusalEndsPass,
    /// A MemberCluster that was refused as a twin leaves as any other does.
    TwinsTakeAway,
    /// A target whose VidraResource is not there is let go though nobody says so.
    OrphansUnasked,
    /// A probe that this process was too late for is the member's miss.
    StarvedMisses,
    /// The leave to write outlives the Lease.
    LeaseAgeIgnored,
    /// Which cluster a member is stands in its MemberCluster's status alone.
    StatusAlone,
    /// A member is asked for its version when it is met, and never again.
    VersionOnce,
    /// Nobody asks whether the hub's API server, after a watch ended, is as far as it was.
    ReachUnasked,
    /// Large answers are read whether or not there is room.
    NoRoomAsked,
    /// What is not rendered yet, or cannot be, declares nothing.
    UnrenderedDeclaresNothing,
    /// A manifest that cannot be read takes back what the one before it declared, which is held.
    HeldDeclaresNothing,
    /// Who else declares an object is asked at the plan, and not before it is deleted.
    ClaimsAtThePlan,
    /// What only a later declaration has counts as dropped where an inventory was lost.
    LaterIsDropped,
    /// Of two VidraResources that apply an object the older comes first, whatever their namespaces.
    AgeAcrossNamespaces,
    /// An owner whose label is lost holds no field of another namespace's.
    UnlabelledHoldsNothing,
    /// A force that was planned when nobody else's entry was there is used whoever declares the object by then.
    PlannedForce,
    /// A late event of an object that was replaced counts as one of its successor.
    PredecessorShown,
    /// What a list read before the end of an object brings that object back.
    ListBringsBack,
    /// Who answers is not asked where a watch has just ended.
    SyncedUnconfirmed,
    /// A target goes while a part of its inventory may still come.
    LateChunkUnawaited,
    /// Whoever applies an object under a name of this hub's has it.
    AnyOwner,
    /// What the hub keeps of another hub is relabelled.
    TakesAnyState,
    /// What takes long is computed on the threads that everything else runs on.
    BlocksThreads,
    /// A page that a gateway answers with is taken for the API server's word.
    HtmlBelieved,
    /// What a server refuses of an object is sent again at once.
    RefusedGoesOn,
    /// A discovery that shows nothing is believed.
    AnyDiscovery,
    /// A kind that is not served is gone for good.
    KindGoneAtOnce,
    /// All causes of an error are looked at.
    AllCauses,
    /// A key waits for as long as somebody asks.
    LongDelays,
    /// The end of a vital task ends nothing.
    VitalGoesOn,
    /// Whoever answers after a connection broke is the one that answered before.
    NoDoubt,
    /// A request to reconcile is handled before its targets have looked.
    RequestHandledAtOnce,
    /// A list counts without asking who answered it, and so does a watch that was opened.
    GapsTrusted,
    /// What is not found is gone, whichever cluster answers.
    AbsenceUnconfirmed,
    /// Whatever is not found, the object that was asked about is gone.
    AnyNotFound,
    /// What a lost part of an inventory held is forgotten.
    LossUnnoticed,
    /// A list is read for as long as it goes on.
    PagesForEver,
    /// All objects that bear an owner's label are noted.
    StraysForEver,
    /// A server that asks to be left alone is asked again and again who answers there.
    ProbesInARow,
    /// Who may not be asked who answers is not lost, whatever is in doubt.
    DoubtForEver,
    /// A session with new credentials asks before its targets find it.
    SessionUnseen,
    /// What answers for an API server is asked again as rarely as one that fails.
    GatewaysRarely,
    /// A watch that shows nothing and ends in order is followed by the next.
    SilenceTrusted,
    /// What the hub itself has deleted is drift.
    OwnDeletionIsDrift,
    /// A single refusal says that the hub may not read its settings.
    RefusedAtOnce,
    /// What a watch shows of a write that was not answered wakes nobody.
    UnansweredUnheard,
    /// A name that is admitted does not ask once more whether an older one was meanwhile.
    AcceptedLate,
    /// A reconcile that ended before it found anything is the look that a person has asked for.
    LooksUntold,
    /// What a removal reads, and its answers, are folded whatever was told since.
    RemovalUnguarded,
    /// A process that is told to end waits for the answer of a renewal.
    RenewalOutlivesStop,
    /// What was recorded counts although no watch can be opened.
    UnopenedTrusted,
    /// An event between two lists that a watch asks for makes the pause before them short again.
    ListsInARow,
    /// Whoever held a Lease that was deleted is not there.
    LostLeaseIsFree,
    /// A single list for which a reconcile waits takes as long as it takes.
    SingleListForEver,
    /// What rests because its namespace is not allowed is looked at before anything is written.
    RevokedAwaited,
    /// A Secret whose member has left takes the place of one that is gone for a moment.
    LeftRegisters,
    /// Settings that could not be read at a start are those of a hub without any.
    UnknownSettingsAreNone,
    /// A list that took long to fail is asked for again at once by the next one that needs it.
    SlowListsInARow,
    /// One member may have all turns at reading lists.
    ListsOfOneMember,
    /// What its VidraResource is letting go counts among those that stay on a member.
    LeaversStay,
    /// Each object whose namespace is missing makes the namespace, and fails where another one did.
    NamespaceForEach,
    /// A hub API whose versions went back is believed.
    RestoreUnnoticed,
    /// A list of the hub's may be older than the answers of its calls.
    AnswersUnheeded,
    /// A Lease that is older than it was written is renewed.
    OldLeaseRenewed,
    /// What cannot be read of the hub's objects is gone.
    UnreadGone,
    /// What is not declared any more is removed at once, whoever else declares it.
    NothingHandedOver,
    /// What is suspended opens the next wave.
    SuspendedOpens,
    /// Any target that cannot be reached counts as Ready.
    UnreachableIsReady,
    /// A status that is declared and not there yet is not waited for.
    NoStatusIsWell,
    /// What a rule calls failed has failed at once.
    FailedAtOnce,
    /// What had failed before a restart may recover once more after it.
    RestartForgetsFailed,
    /// A status from before a change counts as one of after it.
    OldStatusIsNew,
    /// What an earlier process changed a moment ago is forgotten.
    RestartForgetsChange,
    /// What is gone and left so is no fault.
    MissingIsWell,
    /// A Secret may stand in a VidraResource, whatever the setting says.
    SecretsInline,
    /// Revisions that no target has any more stay.
    RevisionsStay,
    /// Who has many Events to tell takes the places of others.
    EventsCrowd,
    /// What is waited for hides from the guard what a declaration drops.
    WaitsHideDrops,
    /// What a MemberCluster says that was made again counts as what the lost one said.
    RemadeMemberAsks,
    /// A target that goes asks nobody whether the hub is behind.
    LeavesBehind,
    /// An informer whose task panicked stays as it was.
    PanicsUnseen,
    /// A kind whose group does not answer is one that nobody serves.
    StaleUnknown,
    /// The answer of a call counts though a later list does not show the object.
    AnswersOutlast,
    /// What was read is compared with what is recorded, though that is newer.
    OldReadCompared,
    /// An answer of one owner that came after a later one of another's changes nothing.
    OvertakenCounts,
    /// Whatever conflict a dry run meets, the object could be made.
    AnyConflict,
    /// What only its uid proves is deleted to be made again before that is written down.
    UnrecordedRecreated,
    /// How a target was told to end is confirmed, whatever is wished now.
    WishForEver,
    /// A younger MemberCluster of a cluster goes on until it is looked at.
    YoungerGoesOn,
    /// What a server that has just started shows of a target is all that there is.
    FoundWhileStarting,
    /// Any JSON that is answered with a 2xx is the object that was asked about.
    AnyObject,
    /// JSON that is no list shows that there is nothing.
    AnyList,
    /// A list is read for as long as it shows objects, recorded or not.
    EndlessListRead,
    /// Whoever has the better priority goes first, for ever.
    PriorityForEver,
    /// A VidraResource is looked at for each status of its targets.
    RollUpsAtOnce,
    /// A watch of the hub's that was heard once is believed while it is silent.
    SilentWatchTrusted,
    /// However long nothing can be seen of one of the hub's kinds, the hub goes by what it saw.
    BlindGoesOn,
    /// Where a name cannot be looked up, the address that it led to a moment ago does not count.
    NoLastAddress,
    /// As many calls to the hub's API are under way as there are.
    HubCallsUnbounded,
    /// Of those who applied an object before only what they updated becomes the hub's with it.
    OnlyUpdatesMove,
    /// However short it went well, what fails again is tried again soon.
    CalmAtOnce,
    /// What a server asks to be waited for is not read.
    RetryAfterUnread,
    /// A watch of the hub's that is silent is begun again as one that ended as it should.
    SilenceIsOrder,
    /// Whoever waited behind a list that does not end begins it again.
    RestsUnseenInLine,
    /// One namespace may take all the room that there is.
    OneFillsTheHub,
    /// What one word of an onRevoke let go another one takes.
    AnyWishUnderWay,
    /// What is left as it is for a while counts as tried.
    TooEarlyIsTried,
    /// Each that has waited for a minute goes, though another one went a moment ago and was refused.
    EachGoesAfterAMinute,
    /// A list takes its turn before it is known whether the server answers.
    TurnBeforeAnswer,
    /// A single list takes no turn.
    OnceWithoutTurn,
    /// A list beside a watch tells of objects whose end the watch has told.
    BesideBringsBack,
    /// A call that the end of its session cut off counts as one that the member did not answer.
    CutIsNoAnswer,
    /// What does not keep the hub's marks is applied again at once.
    UnmarkedAtOnce,
    /// What a group that does not answer may hide lets a Namespace or CRD go.
    StaleLetsGo,
    /// What cannot be read of the hub's objects, and was not known before, is not there.
    UnreadIsMissing,
    /// Whatever schema the hub's CRDs have, what it writes is kept.
    AnySchema,
    /// What the previous process had sent has landed when the next one takes over.
    LateWritesIgnored,
    /// Whoever holds the Lease, it is this process that starts again.
    HolderIsAnybody,
    /// Where objects may be put is asked for each of them.
    PlacesEach,
    /// A VidraTarget is made for a member that has left since it was selected.
    MadeForGone,
    /// A target to which nothing was ever delivered waits for a MemberCluster that has left.
    NothingWaits,
    /// What was known of an object of the hub counts though it cannot be read any more.
    KnownGoesOn,
    /// A target without its VidraResource holds a member that leaves, for ever and in silence.
    MissingHoldsLeaving,
    /// However large a VidraResource itself is, it is delivered.
    InlineUnbounded,
    /// A status that is not taken whole is not written at all.
    StatusWholeOrNot,
    /// A status that was not taken whole is sent again at each look.
    RefusedStatusAgain,
    /// What all namespaces declare together may take any amount of memory.
    HubUnbounded,
    /// The log does not say of whom what may take much memory begins.
    LargeUntold,
    /// The fleet's health rules count before a VidraResource's own.
    FleetRulesFirst,
    /// What an expression lacks is false, and its opposite true.
    MissingFieldHolds,
    /// All of a list of a status that is empty are as they should be.
    EmptyListHolds,
    /// Of all expressions over an object each may take what one may.
    EachCostsAlone,
    /// A status of an earlier generation counts as one of now.
    OldGenerationIsWell,
    /// Nobody comes back when a verdict ends that only waits.
    VerdictsNeverEnd,
    /// A verdict that turns because rules have changed closes the waves that were open.
    TurnedCloses,
    /// A health rule that cannot be used is none.
    BrokenRuleIsNone,
    /// Where a health rule does not say what it is about, the one that it was is forgotten.
    ScopelessForgets,
    /// A health rule that cannot be used takes Ready from what was Ready.
    UnusableTakesReady,
    /// What the hub has delivered into its own namespace says what Ready means.
    DeliveredRulesCount,
    /// A VidraResource may write into the hub's own namespace.
    OwnNamespaceTakes,
    /// What nobody has looked at is held by nobody to whom it yields.
    UnseenYieldsNothing,
    /// What is shown of an object in any version is compared.
    AnyVersionTells,
    /// What could not be read is gone.
    UnreadIsGone,
    /// Values alone are written as soon as anything else.
    ValuesAtOnce,
    /// Values wait in one line, whoever's they are.
    ValuesCrowd,
    /// Values that change all the time are written as often as others.
    BusyValuesWritten,
    /// Of a Secret comes back what is asked for.
    SecretsComeBack,
    /// Expressions see what is in a Secret.
    SecretsSeen,
    /// Values take any room in a VidraTarget.
    FeedbackUnbounded,
    /// Values of some take all the memory that values may take, and more.
    ValuesFillTheHub,
    /// A Namespace or CRD that a health rule does not call current stops the repair of all that is behind it.
    FoundationStopsRepair,
    /// Values of one namespace may take all the room that the hub has for values.
    ValuesOfOneNamespace,
    /// What has failed before a wave that waits may recover once more after a restart.
    WaitingForgetsFailed,
    /// Where a rule becomes one that cannot be used, what was well before opens the next wave.
    UnusableOpens,
    /// A member is out of reach since this process began.
    SilenceBeginsAnew,
    /// A look fails where the object cannot be changed back.
    FixedFails,
    /// What only a read shows, or another VidraResource leaves, without the hub's label counts as it does with it.
    UnlabelledCounts,
    /// What is delivered only where there is nothing, and has lost the hub's label, is gone to a process that has not seen it
    /// before.
    HiddenIsMissing,
    /// What became of a VidraTarget is told of the one that was made again in its place.
    SuccessorTold,
    /// What an object said stands where redact has come to name its kind and nobody can look.
    SaidStays,
    /// A registration namespace whose list fails for a moment counts as listed.
    OptionalUnawaited,
    /// Rules of a VidraResource see the fields that redact names.
    RulesSeeAll,
    /// However many different rules VidraResources of one namespace have for an object, each judges it.
    EachOwnRuleJudges,
    /// The expressions of a rule are evaluated for each of the facts that an object is judged by.
    EvaluatesForEachFact,
    /// A rule that cannot be used counts as the same as one with its text that can.
    BrokenRuleIsEqual,
    /// An owner whose rule was not asked about an object is not judged by it when another's goes.
    RefusedStays,
    /// Of an object that rules are not asked about, its deletion is not seen.
    RefusedHidesEnd,
    /// A target that may have a part of another revision counts as one that was Ready last.
    HalfWasReady,
    /// A target that has its revision in another namespace, or with other inputs, counts as one that was Ready with it last.
    OtherInputsWereReady,
    /// A change of the hub's is forgotten where the rules that hold for all wait for no status after it.
    ChangeInWaitAlone,
    /// What own rules said of an object stands when they may read other fields of it.
    RedactStays,
    /// What a VidraResource's own rules may not read of an object is hidden from all that judges it there.
    AllBlind,
    /// A value that cost too much is not read when older VidraResources ask for less.
    CostlyStays,
    /// Values of what nobody can see go.
    UnseenGivesNothing,
    /// Patterns of rules are compiled though there is no room for them.
    RoomAfterCompile,
    /// A condition that reports an older generation is taken for a report of the newest.
    OldGenerationReports,
    /// What tenants' rules take counts as nothing that a member has sent.
    RulesAreFree,
    /// What failed before it was changed has failed by what it was changed to, at once.
    OldFailureStands,
    /// What Pods said stays told though the settings hide Pods by now.
    CauseStays,
    /// After a start an object of a Ready target is not ready until its own rules have judged it.
    NotJudgedIsNews,
    /// Each VidraResource that asks for values of an object has a bound of its own.
    EachReadsAlone,
    /// A target whose objects have failed counts as one that was Ready last.
    FailedWasReady,
    /// Values that nobody asks for any more go on to come back while the manifest cannot be read.
    HeldFeedback,
    /// A Lease that somebody else wrote last counts as one of a backup.
    LeaseEditedEnds,
    /// Of an object that was edited and then deleted, the deletion is no news.
    DriftToldOnce,
    /// What is owned by an object of the cluster counts as going with the namespace.
    ClusterOwnerGoes,
    /// Of the Secrets that name a member which has left, one alone is marked.
    OneSecretLeaves,
    /// Who declares an object that is applied once does not claim it.
    OnceClaimsNothing,
    /// The revision that a target had last is not in use.
    HadUnused,
    /// What became of a VidraResource is told of the one that was made again in its place.
    SuccessorReported,
    /// What is well only because somebody has edited it meanwhile makes a target Ready.
    ReadyAsEdited,
    /// What the inventory has is another's where its own entry is lost.
    OnlyMarksHave,
    /// What is found of a lost inventory counts as there, though it is being deleted.
    FoundStays,
    /// Any Secret that names a member takes the place of one that is gone.
    AnyStandsIn,
    /// A status tells of a delivery before the inventory has the uids, though what is gone is not to be made again.
    TellsBeforeUids,
    /// What stands in two parts of an inventory stays so.
    DoublesStay,
}

impl Mutant {
    /// Those that the simulation must notice.
    pub const ALL: [Mutant; 13] = [
        Mutant::DeleteOnFailedList,
        Mutant::NoUidPrecondition,
        Mutant::SecondStatusWriter,
        Mutant::EventsLostAtRelist,
        Mutant::ReadyBeforeApplied,
        Mutant::AdoptUnasked,
        Mutant::PruneKept,
        Mutant::ReportRepairs,
        Mutant::WriteIgnored,
        Mutant::NoIntent,
        Mutant::DeleteContainers,
        Mutant::ChangeSkipped,
        Mutant::ArrivalLost,
    ];

    /// Those that take away one guard each; docs/reference/safety.md names the test that notices.
    pub const GUARDS: [Mutant; 223] = [
        Mutant::ReachUnasked,
        Mutant::StatusAlone,
        Mutant::VersionOnce,
        Mutant::ApprovesAnything,
        Mutant::MissingMemberConfirms,
        Mutant::UntracedDeleted,
        Mutant::TwinsAdmitted,
        Mutant::WritesBeforeLooks,
        Mutant::FenceForEver,
        Mutant::NoFloors,
        Mutant::AnyUid,
        Mutant::RedactsNothing,
        Mutant::UnboundedValue,
        Mutant::RemovesWhileWaiting,
        Mutant::FloodGoesOn,
        Mutant::AnyStamp,
        Mutant::RevokedGoes,
        Mutant::RestHoldsLeaving,
        Mutant::GuardForgets,
        Mutant::GuardForgetsRemade,
        Mutant::PoliciesWait,
        Mutant::RestraintsWritten,
        Mutant::SameDropApproved,
        Mutant::WordMovesAlong,
        Mutant::WordUnread,
        Mutant::DeletesByUid,
        Mutant::RefusedUntold,
        Mutant::UnlistedCounts,
        Mutant::GoesByOldPolicy,
        Mutant::RevisionRepairs,
        Mutant::RefusalEndsPass,
        Mutant::TwinsTakeAway,
        Mutant::OrphansUnasked,
        Mutant::StarvedMisses,
        Mutant::LeaseAgeIgnored,
        Mutant::NoRoomAsked,
        Mutant::UnrenderedDeclaresNothing,
        Mutant::HeldDeclaresNothing,
        Mutant::ClaimsAtThePlan,
        Mutant::LaterIsDropped,
        Mutant::AgeAcrossNamespaces,
        Mutant::UnlabelledHoldsNothing,
        Mutant::PlannedForce,
        Mutant::PredecessorShown,
        Mutant::ListBringsBack,
        Mutant::SyncedUnconfirmed,
        Mutant::LateChunkUnawaited,
        Mutant::AnyOwner,
        Mutant::TakesAnyState,
        Mutant::BlocksThreads,
        Mutant::HtmlBelieved,
        Mutant::RefusedGoesOn,
        Mutant::AnyDiscovery,
        Mutant::KindGoneAtOnce,
        Mutant::AllCauses,
        Mutant::LongDelays,
        Mutant::VitalGoesOn,
        Mutant::NoDoubt,
        Mutant::GapsTrusted,
        Mutant::RequestHandledAtOnce,
        Mutant::AbsenceUnconfirmed,
        Mutant::AnyNotFound,
        Mutant::LossUnnoticed,
        Mutant::PagesForEver,
        Mutant::StraysForEver,
        Mutant::ProbesInARow,
        Mutant::DoubtForEver,
        Mutant::SessionUnseen,
        Mutant::RenewalOutlivesStop,
        Mutant::RemovalUnguarded,
        Mutant::LooksUntold,
        Mutant::AcceptedLate,
        Mutant::UnansweredUnheard,
        Mutant::RefusedAtOnce,
        Mutant::SilenceTrusted,
        Mutant::OwnDeletionIsDrift,
        Mutant::GatewaysRarely,
        Mutant::UnopenedTrusted,
        Mutant::ListsInARow,
        Mutant::LostLeaseIsFree,
        Mutant::SingleListForEver,
        Mutant::RevokedAwaited,
        Mutant::LeftRegisters,
        Mutant::UnknownSettingsAreNone,
        Mutant::SlowListsInARow,
        Mutant::ListsOfOneMember,
        Mutant::LeaversStay,
        Mutant::NamespaceForEach,
        Mutant::RestoreUnnoticed,
        Mutant::AnswersUnheeded,
        Mutant::OldLeaseRenewed,
        Mutant::UnreadGone,
        Mutant::NothingHandedOver,
        Mutant::SuspendedOpens,
        Mutant::UnreachableIsReady,
        Mutant::NoStatusIsWell,
        Mutant::FailedAtOnce,
        Mutant::RestartForgetsFailed,
        Mutant::OldStatusIsNew,
        Mutant::RestartForgetsChange,
        Mutant::MissingIsWell,
        Mutant::SecretsInline,
        Mutant::RevisionsStay,
        Mutant::EventsCrowd,
        Mutant::WaitsHideDrops,
        Mutant::RemadeMemberAsks,
        Mutant::LeavesBehind,
        Mutant::AnswersOutlast,
        Mutant::StaleUnknown,
        Mutant::PanicsUnseen,
        Mutant::OldReadCompared,
        Mutant::OvertakenCounts,
        Mutant::AnyConflict,
        Mutant::UnrecordedRecreated,
        Mutant::WishForEver,
        Mutant::YoungerGoesOn,
        Mutant::FoundWhileStarting,
        Mutant::AnyObject,
        Mutant::AnyList,
        Mutant::EndlessListRead,
        Mutant::PriorityForEver,
        Mutant::RollUpsAtOnce,
        Mutant::SilentWatchTrusted,
        Mutant::BlindGoesOn,
        Mutant::NoLastAddress,
        Mutant::HubCallsUnbounded,
        Mutant::OnlyUpdatesMove,
        Mutant::CalmAtOnce,
        Mutant::RetryAfterUnread,
        Mutant::EachGoesAfterAMinute,
        Mutant::SilenceIsOrder,
        Mutant::RestsUnseenInLine,
        Mutant::OneFillsTheHub,
        Mutant::AnyWishUnderWay,
        Mutant::TooEarlyIsTried,
        Mutant::TurnBeforeAnswer,
        Mutant::OnceWithoutTurn,
        Mutant::BesideBringsBack,
        Mutant::CutIsNoAnswer,
        Mutant::UnmarkedAtOnce,
        Mutant::StaleLetsGo,
        Mutant::UnreadIsMissing,
        Mutant::AnySchema,
        Mutant::LateWritesIgnored,
        Mutant::HolderIsAnybody,
        Mutant::PlacesEach,
        Mutant::MadeForGone,
        Mutant::NothingWaits,
        Mutant::KnownGoesOn,
        Mutant::MissingHoldsLeaving,
        Mutant::InlineUnbounded,
        Mutant::StatusWholeOrNot,
        Mutant::RefusedStatusAgain,
        Mutant::HubUnbounded,
        Mutant::LargeUntold,
        Mutant::FleetRulesFirst,
        Mutant::MissingFieldHolds,
        Mutant::EmptyListHolds,
        Mutant::EachCostsAlone,
        Mutant::OldGenerationIsWell,
        Mutant::VerdictsNeverEnd,
        Mutant::TurnedCloses,
        Mutant::BrokenRuleIsNone,
        Mutant::ScopelessForgets,
        Mutant::UnusableTakesReady,
        Mutant::DeliveredRulesCount,
        Mutant::OwnNamespaceTakes,
        Mutant::UnseenYieldsNothing,
        Mutant::AnyVersionTells,
        Mutant::UnreadIsGone,
        Mutant::ValuesAtOnce,
        Mutant::ValuesCrowd,
        Mutant::BusyValuesWritten,
        Mutant::SecretsComeBack,
        Mutant::SecretsSeen,
        Mutant::FeedbackUnbounded,
        Mutant::ValuesFillTheHub,
        Mutant::ValuesOfOneNamespace,
        Mutant::FoundationStopsRepair,
        Mutant::SilenceBeginsAnew,
        Mutant::WaitingForgetsFailed,
        Mutant::UnusableOpens,
        Mutant::FixedFails,
        Mutant::UnlabelledCounts,
        Mutant::HiddenIsMissing,
        Mutant::SuccessorTold,
        Mutant::SaidStays,
        Mutant::OptionalUnawaited,
        Mutant::RulesSeeAll,
        Mutant::EachOwnRuleJudges,
        Mutant::EvaluatesForEachFact,
        Mutant::FailedWasReady,
        Mutant::EachReadsAlone,
        Mutant::BrokenRuleIsEqual,
        Mutant::RefusedStays,
        Mutant::RefusedHidesEnd,
        Mutant::HalfWasReady,
        Mutant::OtherInputsWereReady,
        Mutant::ChangeInWaitAlone,
        Mutant::RedactStays,
        Mutant::AllBlind,
        Mutant::CostlyStays,
        Mutant::UnseenGivesNothing,
        Mutant::RoomAfterCompile,
        Mutant::OldGenerationReports,
        Mutant::RulesAreFree,
        Mutant::OldFailureStands,
        Mutant::CauseStays,
        Mutant::NotJudgedIsNews,
        Mutant::HeldFeedback,
        Mutant::LeaseEditedEnds,
        Mutant::DriftToldOnce,
        Mutant::ClusterOwnerGoes,
        Mutant::OneSecretLeaves,
        Mutant::OnceClaimsNothing,
        Mutant::HadUnused,
        Mutant::SuccessorReported,
        Mutant::ReadyAsEdited,
        Mutant::OnlyMarksHave,
        Mutant::FoundStays,
        Mutant::AnyStandsIn,
        Mutant::TellsBeforeUids,
        Mutant::DoublesStay,
    ];
}

/// The one that the process was started with.
#[cfg(debug_assertions)]
fn of_process() -> Option<Mutant> {
    let name = std::env::var("VIDRA_MUTANT").ok()?;
    Mutant::ALL.into_iter().chain(Mutant::GUARDS).find(|mutant| format!("{mutant:?}") == name)
}

#[cfg(debug_assertions)]
thread_local! {
    static CHOSEN: Cell<Option<Mutant>> = Cell::new(of_process());
    /// One bit each.
    static ASKED: Cell<[u64; 4]> = const { Cell::new([0; 4]) };
}

/// From now on a hub on this thread makes this mistake, or with `None` none.
#[cfg(debug_assertions)]
pub fn choose(mutant: Option<Mutant>) {
    CHOSEN.set(mutant);
}

/// Is this the mistake to be made?
#[cfg(debug_assertions)]
pub fn is(mutant: Mutant) -> bool {
    let at = mutant as usize;
    let mut asked = ASKED.get();
    asked[at / 64] |= 1 << (at % 64);
    ASKED.set(asked);
    CHOSEN.get() == Some(mutant)
}

/// The mistakes that code on this thread could have made since this was asked last: where none was asked about, choosing it
/// changes nothing.
#[cfg(debug_assertions)]
pub fn asked() -> Vec<Mutant> {
    let asked = ASKED.take();
    let all = Mutant::ALL.into_iter().chain(Mutant::GUARDS);
    all.filter(|mutant| asked[*mutant as usize / 64] & (1 << (*mutant as usize % 64)) != 0).collect()
}

/// Never.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is(_: Mutant) -> bool {
    false
}
