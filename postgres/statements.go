package postgres

import "strings"

// statements are the texts for one schema. What depends on the tables of finished jobs is in slotTexts.
type statements struct {
	insertNames, selectNumbers, insertKinds, selectTexts      string
	selectSlots, markSlot, makeDays, retireDay, dropDay       string
	insertPlain, insertPlainUnless                            string
	insertFull, insertFullUnless, insertOne                   string
	insertLined, insertLinedUnless                            string
	insertArrivals, arriveTakenBack, insertJobArrivals        string
	takeArrivals, selectLimits, selectRates, leaveLines       string
	leaveLimits, passOrders, passKeys, passKinds, letThrough  string
	giveQuickly                                               string
	countPiles, writeRate, countStarts, lookAgain, anyArrival string
	parkUnlined, anyWaits                                     string
	openBatches, lockOpenBatches, noteMembers, noteEnds       string
	noteHeld, countMembers, lockOver, endBatches              string
	selectBatch, anyTally, purgeBatches, cancelBatches        string
	selectMembers                                             string
	selectLetterJobs, selectHolders, holdKeys                 string
	lockKeys, lockAllKeys                                     string
	forgetAttempts, forgetVerdicts                            string
	claim, claimSuspect, claimOrphan, claimDue, takeTokens    string
	selectOrphanKinds, selectAttempts, selectVerdicts         string
	putBack, insertRecords, trimRecords                       string
	endJobs, removeCancelled                                  string
	openSession, seeKinds                                     string
	renewSession, selectOthers, selectTroubled, writeProgress string
	selectHeld                                                string
	closeSession, endSession, seeKindsOf                      string
	markStarted, writeVerdicts                                string
	selectEnded, selectReserved, selectStanding               string
	recoverJobs, moveScan                                     string
	makeDue, selectNextDue, anyEnded                          string
	purgeKeys, purgeSessions                                  string

	desk      deskStatements
	schedules scheduleStatements
}

func newStatements(s schema) statements {
	return statements{
		insertNames: s.text(insertNames), selectNumbers: s.text(selectNumbers), insertKinds: s.text(insertKinds), selectTexts: s.text(selectTexts),
		selectSlots: s.text(selectSlots), markSlot: s.text(markSlot),
		makeDays: s.text(makeDays), retireDay: s.text(retireDay), dropDay: s.text(dropDay),
		insertPlain: s.text(insertPlain), insertPlainUnless: s.text(insertPlain + unlessThere),
		insertFull: s.text(insertFull), insertFullUnless: s.text(insertFull + unlessThere), insertOne: s.text(insertOne),
		insertLined:       s.text(strings.ReplaceAll(insertLined, "{insert}", insertFull)),
		insertLinedUnless: s.text(strings.ReplaceAll(insertLined, "{insert}", insertFull+" on conflict (id) do nothing")),
		insertArrivals:    s.text(insertArrivals), arriveTakenBack: s.text(arriveTakenBack), insertJobArrivals: s.text(insertJobArrivals),
		takeArrivals: s.text(takeArrivals), selectLimits: s.text(selectLimits), selectRates: s.text(selectRates), leaveLines: s.text(leaveLines),
		leaveLimits: s.text(leaveLimits), passOrders: s.text(passOrders), passKeys: s.text(passKeys), passKinds: s.text(passKinds),
		letThrough: s.text(letThrough), giveQuickly: s.text(giveQuickly), countPiles: s.text(countPiles), writeRate: s.text(writeRate), countStarts: s.text(countStarts),
		lookAgain: s.text(lookAgain), anyArrival: s.text(anyArrival), parkUnlined: s.text(parkUnlined), anyWaits: s.text(anyWaits),
		openBatches: s.text(openBatches), lockOpenBatches: s.text(lockOpenBatches), noteMembers: s.text(noteMembers), noteEnds: s.text(noteEnds),
		noteHeld: s.text(noteHeld), countMembers: s.text(countMembers), lockOver: s.text(lockOver), endBatches: s.text(endBatches),
		selectBatch: s.text(selectBatch), selectMembers: s.text(selectMembers), anyTally: s.text(anyTally), purgeBatches: s.text(purgeBatches), cancelBatches: s.text(cancelBatches),
		selectLetterJobs: s.text(selectLetterJobs), lockKeys: s.text(lockKeys), lockAllKeys: s.text(lockAllKeys), selectHolders: s.text(selectHolders), holdKeys: s.text(holdKeys),
		forgetAttempts: s.text(forgetAttempts), forgetVerdicts: s.text(forgetVerdicts),
		claim: s.text(claimText(claimAny)), claimSuspect: s.text(claimText(claimSuspects)), claimOrphan: s.text(claimText(claimOrphans)), claimDue: s.text(claimDue),
		takeTokens:        s.text(takeTokens),
		selectOrphanKinds: s.text(selectOrphanKinds), selectAttempts: s.text(selectAttempts), selectVerdicts: s.text(selectVerdicts),
		putBack: s.text(putBack), insertRecords: s.text(insertRecords), trimRecords: s.text(trimRecords),
		endJobs: s.text(endJobs), removeCancelled: s.text(removeCancelled),
		openSession: s.text(openSession), seeKinds: s.text(seeKinds),
		renewSession: s.text(renewSession), selectOthers: s.text(selectOthers), selectTroubled: s.text(selectTroubled), writeProgress: s.text(writeProgress),
		selectHeld:   s.text(selectHeld),
		closeSession: s.text(closeSession), endSession: s.text(endSession), seeKindsOf: s.text(seeKindsOf),
		markStarted: s.text(markStarted), writeVerdicts: s.text(writeVerdicts),
		selectEnded: s.text(selectEnded), selectReserved: s.text(selectReserved), selectStanding: s.text(selectStanding), recoverJobs: s.text(recoverJobs), moveScan: s.text(moveScan),
		makeDue: s.text(makeDue), selectNextDue: s.text(selectNextDue), anyEnded: s.text(anyEnded),
		purgeKeys: s.text(purgeKeys), purgeSessions: s.text(purgeSessions),
		desk: newDeskStatements(s), schedules: newScheduleStatements(s),
	}
}

// slotTexts are the texts of statements that name the tables of finished jobs.
type slotTexts struct {
	removeEnded, refuseEnded string
	refuseOne                string
	selectKnown              string
	insertUnique             string
	insertUniqueNow          string
	insertUniqueOne          string
	selectAccepted, mayRead  string
	settlePlain, settleDone  string
	settlePassing            string // settleDone where slots of limits come free
	insertEnded              string // "" without a table to write to
}

func (s schema) slotTexts(t slotSet, history bool) slotTexts {
	columns, values := "id, state", "id, 0"
	if history {
		columns = "id, state, finished_at, enqueued_at, queue, kind, attempt, requeues, crashes, envelope"
		values = "id, 0, now(), enqueued_at, queue, kind, attempt, requeues, crashes, envelope"
	}
	fill := func(template string) string {
		return s.text(strings.NewReplacer(
			"{union}", t.each(endedTerm, " union all "),
			"{known}", t.each(knownTerm, ""),
			"{or}", t.each(orTerm, ""),
			"{accepted}", t.each(acceptedTerm, ""), "{readable}", strings.ReplaceAll(t.each(readableTerm, ""), "{s}", "{l}"),
			"{current}", "{s}."+t.table(), "{columns}", columns, "{values}", values,
		).Replace(template))
	}
	out := slotTexts{
		selectKnown:     fill(selectKnown),
		insertUnique:    fill(strings.NewReplacer("{lists}", listsUnique, "{insert}", insertFrom+"looked where holder is null) t").Replace(insertUnique)),
		insertUniqueNow: fill(strings.NewReplacer("{lists}", listsUniqueNow, "{insert}", insertNow).Replace(insertUniqueNow)),
		insertUniqueOne: fill(insertUniqueOne), settlePlain: fill(forgetPlain), settleDone: fill(settleForgotten),
		settlePassing:  fill(strings.ReplaceAll(settlePassing, "{kept}", "")),
		selectAccepted: fill(selectAccepted), mayRead: fill(mayRead),
	}
	if len(t.live) > 0 {
		out.removeEnded, out.refuseEnded, out.refuseOne = fill(removeEnded), fill(refuseEnded), fill(refuseOne)
	}
	if t.current >= 0 {
		out.settlePlain, out.settleDone, out.insertEnded = fill(settlePlain), fill(settleDone), fill(insertEnded)
		out.settlePassing = fill(strings.ReplaceAll(settlePassing, "{kept}", settlePassingKept))
	}
	return out
}
