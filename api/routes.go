package api

import (
	"net/http"
)

// The routes, as the client and the server know them.
var (
	aboutRoute = to[none, about](route{
		name: "About", path: "", needs: RoleViewer, enqueues: true,
		doc: "What this is: the connection, its policy, the program's version, and what the token may do.",
	})
	describeRoute = to[none, document](route{
		name: "Describe", path: "/openapi.json", needs: RoleViewer, enqueues: true,
		doc: "This description.",
	})

	enqueueRoute = to[enqueuing, enqueued](route{
		name: "Enqueue", method: http.MethodPost, path: "/jobs", needs: RoleOperator, enqueues: true, creates: true,
		slow: true, repeats: true, // with ids, as the client does
		doc: "Enqueue one job, or up to 1,000: all of them or none. The answer comes when they are durable: 201, or 200 when nothing new was stored. " +
			"With an id of the client's own it can be repeated without harm.",
	})
	jobsRoute = to[jobsQuery, jobPage](route{
		name: "Jobs", path: "/jobs", needs: RoleViewer,
		doc: "List jobs, newest enqueue first. Ended ones are found for as long as history is kept.",
	})
	jobRoute = to[jobQuery, jobDetail](route{
		name: "Job", path: "/jobs/{id}", needs: RoleViewer,
		doc: "Look at one job.",
	})
	cancelRoute = to[jobsAct, jobActs](route{
		name: "CancelJobs", method: http.MethodPost, path: "/jobs/cancel", needs: RoleOperator,
		doc: "End jobs for good, at most 1,000. One that waits or is scheduled is removed at once; one that is running is asked to stop. " +
			"Result i belongs to id i, and a refused one does not stop the others.",
	})
	runNowRoute = to[jobsAct, jobActs](route{
		name: "RunJobsNow", method: http.MethodPost, path: "/jobs/run-now", needs: RoleOperator,
		doc: "Make scheduled jobs ready, at most 1,000. Result i belongs to id i, and a refused one does not stop the others.",
	})
	deleteRoute = to[jobsAct, jobActs](route{
		name: "DeleteJobs", method: http.MethodPost, path: "/jobs/delete", needs: RoleOperator,
		doc: "Remove jobs that have not ended at once, at most 1,000, also where a handler runs: what it ends with is refused then. " +
			"Result i belongs to id i, and a refused one does not stop the others.",
	})

	queuesRoute = to[none, queueList](route{
		name: "Queues", path: "/queues", needs: RoleViewer, slow: true,
		doc: "Count the jobs of every queue that has any or is paused, in order of priority.",
	})
	busyQueuesRoute = to[none, names](route{
		name: "BusyQueues", path: "/busy-queues", needs: RoleViewer,
		doc: "Name the queues in which jobs wait or are reserved, in order of priority. It counts nothing, so it is quick however many there are.",
	})
	queueHeadsRoute = to[none, queueHeads](route{
		name: "QueueHeads", path: "/queue-heads", needs: RoleViewer,
		doc: "Say of every queue in which jobs wait which kinds wait there and for how long. It is quick however many jobs there are.",
	})
	clearRoute = to[queueAct, cleared](route{
		name: "ClearQueue", method: http.MethodPost, path: "/queues/{queue}/clear", needs: RoleOperator, slow: true,
		doc: "Remove every waiting, scheduled and reserved job of a queue.",
	})
	pauseRoute = to[pausing, queuePause](route{
		name: "PauseQueue", method: http.MethodPut, path: "/queues/{queue}/pause", needs: RoleOperator,
		doc: "Stop or resume the claims from a queue; running jobs go on.",
	})
	switchRoute = to[switching, kindSwitch](route{
		name: "SwitchKind", method: http.MethodPut, path: "/kinds/{kind}/switch", needs: RoleAdmin,
		doc: "Set a kind's switch. The jobs of a kind that is switched off wait.",
	})
	resetRoute = to[kindAct, none](route{
		name: "ResetKind", method: http.MethodPost, path: "/kinds/{kind}/reset", needs: RoleAdmin,
		doc: "Take a kind's switch away: its jobs run, or wait, as the kind itself says.",
	})
	switchesRoute = to[none, switches](route{
		name: "Switches", path: "/switches", needs: RoleViewer,
		doc: "List the switches and pauses that are set, with who has set each, when and why.",
	})
	limitsRoute = to[none, limits](route{
		name: "Limits", path: "/limits", needs: RoleViewer,
		doc: "List the kinds that are held to a limit.",
	})
	limitRoute = to[limiting, none](route{
		name: "SetLimit", method: http.MethodPut, path: "/kinds/{kind}/limit", needs: RoleOperator,
		doc: "Overrule the limit that a kind states, for all hosts and until it is set again.",
	})
	hostsRoute = to[none, hostList](route{
		name: "Hosts", path: "/hosts", needs: RoleViewer,
		doc: "List the sessions of hosts that have not ended.",
	})
	quietRoute = to[hostAct, none](route{
		name: "QuietHost", method: http.MethodPost, path: "/hosts/{session}/quiet", needs: RoleOperator, repeats: true,
		doc: "Ask a host to claim no more jobs, for as long as its session lasts.",
	})
	drainRoute = to[hostAct, none](route{
		name: "DrainHost", method: http.MethodPost, path: "/hosts/{session}/drain", needs: RoleOperator, repeats: true,
		doc: "Ask a host to end, as SIGTERM does: it claims no more, gives what runs its grace, and puts back what has not ended.",
	})
	statusRoute = to[statusQuery, status](route{
		name: "Status", path: "/status", needs: RoleViewer,
		doc: "Say whether all is well, and if not, what to deal with first. It counts no jobs, so it is quick however many there are.",
	})
)

// The routes of dead letters.
var (
	lettersRoute = to[lettersQuery, letterPage](route{
		name: "Letters", path: "/dead", needs: RoleViewer,
		doc: "List dead letters, newest first, without their evidence.",
	})
	letterRoute = to[letterQuery, letterDetail](route{
		name: "Letter", path: "/dead/{id}", needs: RoleViewer,
		doc: "Look at one dead letter with all its evidence.",
	})
	countRoute = to[filter, counted](route{
		name: "CountLetters", path: "/dead/count", needs: RoleViewer, slow: true,
		doc: "Count the dead letters that match.",
	})
	groupsRoute = to[groupsQuery, groups](route{
		name: "LetterGroups", path: "/groups", needs: RoleViewer, slow: true,
		doc: "Group the dead letters that match by their fingerprint: failures that are alike. The largest groups come first.",
	})
	findGroupRoute = to[groupQuery, foundGroup](route{
		name: "FindGroup", path: "/groups/{group}", needs: RoleViewer,
		doc: "Find the one group whose fingerprint is, or begins with, this text.",
	})
	alertsOfRoute = to[letterPath, letterAlerts](route{
		name: "AlertsOf", path: "/dead/{id}/alerts", needs: RoleViewer,
		doc: "Say for every sink by which message it is told of a letter.",
	})
	redriveRoute = to[redriving, letterActed](route{
		name: "Redrive", method: http.MethodPost, path: "/dead/{id}/redrive", needs: RoleOperator, slow: true,
		doc: "Run the job of an open letter again, as a new job with a new id and all its tries, with its args or corrected ones.",
	})
	redriveManyRoute = to[redrivingMany, letterActs](route{
		name: "RedriveMany", method: http.MethodPost, path: "/dead/redrive", needs: RoleOperator, slow: true,
		doc: "Redrive letters, at most 1,000. Result i belongs to id i, and a refused one does not stop the others.",
	})
	retryRoute = to[retrying, letterActed](route{
		name: "Retry", method: http.MethodPost, path: "/dead/{id}/retry", needs: RoleOperator, slow: true,
		doc: "Put the job of an open letter back under its own id, as it was. A redrive is the better choice in most cases.",
	})
	retryManyRoute = to[retryingMany, letterActs](route{
		name: "RetryMany", method: http.MethodPost, path: "/dead/retry", needs: RoleOperator, slow: true,
		doc: "Retry letters, at most 1,000. Result i belongs to id i, and a refused one does not stop the others.",
	})
	resolveRoute = to[closing, letterActs](route{
		name: "ResolveMany", method: http.MethodPost, path: "/dead/resolve", needs: RoleOperator, slow: true,
		doc: "Close open letters, at most 1,000: they were dealt with. Result i belongs to id i, and a refused one does not stop the others.",
	})
	discardRoute = to[closing, letterActs](route{
		name: "DiscardMany", method: http.MethodPost, path: "/dead/discard", needs: RoleOperator, slow: true,
		doc: "Close open letters, at most 1,000: they are not worth dealing with. Result i belongs to id i, and a refused one does not stop the others.",
	})
	reopenRoute = to[closing, letterActs](route{
		name: "ReopenMany", method: http.MethodPost, path: "/dead/reopen", needs: RoleOperator, slow: true,
		doc: "Open closed letters again, at most 1,000, and those whose redrive was cancelled. Result i belongs to id i, and a refused one does not stop the others.",
	})
	noteRoute = to[closing, letterActs](route{
		name: "NoteMany", method: http.MethodPost, path: "/dead/note", needs: RoleOperator, slow: true,
		doc: "Replace the notes of letters, at most 1,000, whatever their status. Result i belongs to id i, and a refused one does not stop the others.",
	})
	forgetRoute = to[letterAct, forgotten](route{
		name: "ForgetLetter", method: http.MethodPost, path: "/dead/{id}/forget", needs: RoleOperator,
		doc: "Remove a letter and its evidence; that it was removed, and by whom, stays in the audit trail.",
	})
	forgetManyRoute = to[forgetting, letterActs](route{
		name: "ForgetMany", method: http.MethodPost, path: "/dead/forget", needs: RoleOperator, slow: true,
		doc: "Remove letters, at most 1,000. Result i belongs to id i, and a refused one does not stop the others.",
	})
	pruneRoute = to[pruning, pruned](route{
		name: "PruneLetters", method: http.MethodPost, path: "/dead/prune", needs: RoleAdmin, slow: true, repeats: true,
		doc: "Remove the letters that match, by status and age, the oldest first. A call that was cut off has removed a part; doing it again removes the rest.",
	})
	eraseRoute = to[erasing, erased](route{
		name: "EraseArgs", method: http.MethodPost, path: "/erase", needs: RoleAdmin, slow: true, repeats: true,
		doc: "Remove the args of jobs from history and letters, and keep the rest. A call that was cut off has erased a part; doing it again erases the rest.",
	})
	auditRoute = to[auditQuery, auditPage](route{
		name: "Audit", path: "/audit", needs: RoleViewer,
		doc: "Read the audit trail, newest first.",
	})
	forgetSinkRoute = to[sinkAct, sinkForgotten](route{
		name: "ForgetSink", method: http.MethodPost, path: "/sinks/{sink}/forget", needs: RoleOperator,
		doc: "Take a sink that no host has any more off the register, and give up what it was not told of.",
	})
	sinksRoute = to[none, sinkList](route{
		name: "Sinks", path: "/sinks", needs: RoleViewer,
		doc: "Count the deaths that every registered sink is told of.",
	})
)

// The routes of programs that stand beside a store, such as one whose jobs live elsewhere. They write what is asked for as
// the store does.
var (
	recordRoute = to[recording, recorded](route{
		name: "RecordDeaths", method: http.MethodPost, path: "/dead", needs: RoleAdmin, slow: true, repeats: true,
		doc: "Record deaths elsewhere, at most 1,000. A letter whose id is there already is left untouched.",
	})
	moveRoute = to[moving, results](route{
		name: "MoveLetters", method: http.MethodPost, path: "/dead/moves", needs: RoleAdmin, slow: true,
		doc: "Change the status of letters, at most 1,000, each if its present status allows it, with the jobs that are to be stored. Result i belongs to move i.",
	})
	claimAlertsRoute = to[claiming, alertTasks](route{
		name: "ClaimAlerts", method: http.MethodPost, path: "/alerts/claim", needs: RoleAdmin,
		doc: "Lease due messages to a session of a host.",
	})
	settleAlertsRoute = to[settling, results](route{
		name: "SettleAlerts", method: http.MethodPost, path: "/alerts/settle", needs: RoleAdmin, repeats: true,
		doc: "Record what became of deliveries. Result i belongs to delivery i.",
	})
)
