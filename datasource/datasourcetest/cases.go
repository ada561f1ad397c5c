package datasourcetest

// group is a named set of cases; its scenes are subtests of t.Run(name).
type group struct {
	name   string
	scenes []scene
	// measures: the scenes spend their time waiting for nothing to happen. In real time they wait at the same time.
	measures bool
}

type scene struct {
	name string
	run  func(*play)
}

// sourceGroups lists the cases of Run. docs/conformance.md says what each checks; a test keeps the two in step.
func sourceGroups() []group {
	return append([]group{
		// Step 1.
		{"Constructor", []scene{
			{"NoIO", constructorNoIO},
			{"Options", constructorOptions},
			{"Borrows", constructorBorrows},
			{"ID", constructorID},
			{"NoSecrets", constructorNoSecrets},
		}, false},
		// Step 2.
		{"Read", []scene{
			{"Missing", readMissing},
			{"Present", readPresent},
			{"ZeroBytes", readZeroBytes},
			{"Large", readLarge},
			{"Bytes", readBytes},
			{"Deleted", readDeleted},
			{"Fresh", readFresh},
			{"Neighbour", readNeighbour},
			{"Broken", readBroken},
			{"Denied", readDenied},
			{"Cancelled", readCancelled},
			{"Stalled", readStalled},
		}, false},
		// Step 3.
		{"WatchJoins", []scene{
			{"Present", watchJoinsPresent},
			{"Missing", watchJoinsMissing},
			{"Deleted", watchJoinsDeleted},
			{"SameAgain", watchJoinsSameAgain},
			{"Live", watchJoinsLive},
			{"Neighbour", watchJoinsNeighbour},
		}, false},
		// Step 4.
		{"WatchEnds", []scene{
			{"Cancelled", watchEndsCancelled},
			{"CancelledBroken", watchEndsCancelledBroken},
			{"CancelledStalled", watchEndsCancelledStalled},
			{"Cut", watchEndsCut},
			{"OwnError", watchEndsOwnError},
			{"Compacted", watchEndsCompacted},
			{"CompactedWhileCut", watchEndsCompactedWhileCut},
			{"CompactedWhileQuiet", watchEndsCompactedWhileQuiet},
			{"Restarted", watchEndsRestarted},
			{"Reset", watchEndsReset},
		}, false},
		// Step 5.
		{"Order", []scene{
			{"Burst", orderBurst},
			{"Scrambled", orderScrambled},
			{"ReadAfterDelivery", orderReadAfterDelivery},
		}, false},
		// Step 6.
		{"Callback", []scene{
			{"AnyBytes", callbackAnyBytes},
			{"Nothing", callbackNothing},
			{"Siblings", callbackSiblings},
		}, false},
		// Step 7.
		{"Deletion", []scene{
			{"Deleted", deletionDeleted},
			{"Expired", deletionExpired},
			{"CreatedAgain", deletionCreatedAgain},
		}, false},
		// Step 8.
		{"Idle", []scene{
			{"Present", idlePresent},
			{"Missing", idleMissing},
			{"Deleted", idleDeleted},
			{"Refused", idleRefused},
		}, true},
		// Step 9.
		{"ErrorStorm", []scene{
			{"Broken", errorStormBroken},
			{"Denied", errorStormDenied},
			{"Stalled", errorStormStalled},
			{"FromTheStart", errorStormFromTheStart},
		}, true},
		// Step 10.
		{"Close", []scene{
			{"BeforeStart", closeBeforeStart},
			{"FirstRead", closeFirstRead},
			{"Backoff", closeBackoff},
			{"Watching", closeWatching},
			{"Stalled", closeStalled},
			{"Broken", closeBroken},
			{"Cycles", closeCycles},
		}, false},
		// Whatever the store was like at the start, its first good document comes into force without a restart.
		{"Start", []scene{
			{"Once", startOnce},
			{"MissingThenCreated", startMissingThenCreated},
			{"BadThenGood", startBadThenGood},
			{"FailedThenAgain", startFailedThenAgain},
			{"DownThenUp", startDownThenUp},
			{"DownFails", startDownFails},
		}, false},
		// The event sequences that users met.
		{"Sequence", []scene{
			{"E1RapidSaves", sequenceE1RapidSaves},
			{"E2SlowTruncate", sequenceE2SlowTruncate},
			{"E3Swap", sequenceE3Swap},
			{"E5Gap", sequenceE5Gap},
			{"E5DeletePut", sequenceE5DeletePut},
			{"E10FailedApply", sequenceE10FailedApply},
			{"E11Drift", sequenceE11Drift},
			{"E13Snapshot", sequenceE13Snapshot},
			{"E13CorruptSnapshot", sequenceE13CorruptSnapshot},
		}, false},
		// What an outage hid is in force soon after it.
		{"Recovery", []scene{
			{"Cut", recoveryCut},
			{"Denied", recoveryDenied},
			{"Stall", recoveryStall},
			{"LostNotification", recoveryLostNotification},
			{"Restart", recoveryRestart},
			{"Compaction", recoveryCompaction},
			{"Reset", recoveryReset},
			{"TwoSources", recoveryTwoSources},
			{"EqualContent", recoveryEqualContent},
			{"Scrambled", recoveryScrambled},
			{"ManyCuts", recoveryManyCuts},
		}, false},
	}, guardGroup(), payloadGroup())
}

// sinkGroups lists the cases of RunSink.
func sinkGroups() []group {
	return []group{
		{"Sink", []scene{
			{"NoIO", sinkNoIO},
			{"ID", sinkID},
			{"Create", sinkCreate},
			{"CreateTwice", sinkCreateTwice},
			{"Replace", sinkReplace},
			{"Conflict", sinkConflict},
			{"Overtaken", sinkOvertaken},
			{"Deleted", sinkDeleted},
			{"DeletedThenWritten", sinkDeletedThenWritten},
			{"ReadBack", sinkReadBack},
			{"Bytes", sinkBytes},
			{"TooLarge", sinkTooLarge},
			{"Writers", sinkWriters},
			{"Creators", sinkCreators},
			{"NoTornRead", sinkNoTornRead},
			{"Echo", sinkEcho},
			{"Broken", sinkBroken},
			{"Denied", sinkDenied},
			{"Cancelled", sinkCancelled},
			{"Stalled", sinkStalled},
			{"BrokenMidWrite", sinkBrokenMidWrite},
			{"Restarted", sinkRestarted},
		}, false},
		{"Edit", []scene{
			{"InForce", editInForce},
			{"Missing", editMissing},
			{"Clear", editClear},
			{"E12WriteBack", editWriteBack},
			{"TwoWriters", editTwoWriters},
			{"BrokenMidWrite", editBrokenMidWrite},
			{"RestartedMidWrite", editRestartedMidWrite},
		}, false},
	}
}
