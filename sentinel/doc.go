// Package sentinel brings rules from their stores into sentinel-golang v1.0.4: [Open] reads every source, keeps the core
// in step with it, and says what is in force.
//
//	rules, err := sentinel.Open(ctx,
//		sentinel.Flow(flowSource),
//		sentinel.Degrade(degradeSource, sentinel.OnInvalid(datasource.SkipRule)),
//	)
//	defer rules.Close()
//
// # What it does to the core
//
// A thread-grade flow rule becomes an isolation rule, a system rule one rule per limit, seconds become milliseconds; a
// rule that the core can't enforce is refused by name, or held out of the core (option [Unsupported]). The core gets
// copies, each rule is checked by the core's own rules before, and what is live is compared after: if it is not what was
// given, the rules before are put back and the readable tries again.
//
// An edit touches only what it changes. An open breaker, a warm-up and the statistics of a rule live on through edits of
// other rules, through another order of the list and through other IDs. A changed rule starts anew, as in Java.
//
// # Who owns the core's managers
//
// The core's managers are global to the process. Those of the kinds that have a source belong to Rulewire as a whole:
// rules that other code loads there stay until the next change, show in [Rules.Drift] and in the status, and are
// replaced by [Rules.Refresh] or [Rules.Reconcile]. The isolation manager is shared resource by resource unless there is
// an [Isolation] source: thread-grade flow rules then only take the resources that they name. A second
// Open whose kinds share one of the core's managers with a Rules that is still open is refused with
// datasource.ErrConflict: give several sources to one Open instead.
//
// # Without an init
//
// Open does not call the core's api.Init functions, so it works beside an application that has called one already.
// Flow, isolation, hot-parameter and circuit-breaker rules and the QPS, thread and response-time limits of system rules
// work without any. Load and CPU limits and memory-adaptive flow rules need the collectors that an api.Init function
// starts, as do the core's metric log and its own log file: call one before Open, or pass it as [Init].
package sentinel
