package postgres

import "github.com/pawljobs/pawl"

var (
	_ pawl.Operator      = (*Store)(nil)
	_ pawl.OperationWork = (*Store)(nil)
)

// deskStatements are the texts of what operators ask for, for one schema.
type deskStatements struct {
	selectLetter                                                                                 string
	deleteAlerts, deleteEvidence, deleteLetter                                                   string
	selectNeeded, selectExpired                                                                  string
	lockFates, writeFates, selectNextLetter                                                      string
	insertLetters, writeOutcomes                                                                 string
	insertAudit, updateAudit                                                                     string
	selectHeads, selectFollowing                                                                 string
	selectLive, selectRecord                                                                     string
	selectQueues, countHead, countFront, countPlaces, countScheduled, countStanding              string
	selectSwitch, upsertSwitch, selectSwitches, selectHosts                                      string
	endSwitch, selectSettings                                                                    string
	lockToQuiet, quietHost, lockToDrain, drainHost                                               string
	countParked, upsertLimit, stateLimits, deleteLimit, standBack                                string
	lookAtKind, countLines                                                                       string
	selectSinkHost, deleteSink, registerSinks, anyStaleSink, selectInfos, noteSinks, retireSinks string
	dropFreshAlerts, dropToldAlerts, dropMessages                                                string
	runNow, deleteJobs, lockToCancel, markCancelled, removeFree                                  string
	alertStatements
	operationStatements
}

func newDeskStatements(s schema) deskStatements {
	return deskStatements{
		selectLetter: s.text(selectLetter),
		deleteAlerts: s.text(deleteAlerts), deleteEvidence: s.text(deleteEvidence), deleteLetter: s.text(deleteLetter),
		selectNeeded: s.text(selectNeeded), selectExpired: s.text(selectExpired),
		lockFates: s.text(lockFates), writeFates: s.text(writeFates), selectNextLetter: s.text(selectNextLetter),
		insertLetters: s.text(insertLetters), writeOutcomes: s.text(writeOutcomes),
		insertAudit: s.text(insertAudit), updateAudit: s.text(updateAudit),
		selectHeads: s.text(selectHeads), selectFollowing: s.text(selectFollowing),
		selectLive: s.text(selectLive), selectRecord: s.text(selectRecord),
		selectQueues: s.text(selectQueues), countHead: s.text(countHead), countFront: s.text(countFront), countPlaces: s.text(countPlaces), countScheduled: s.text(countScheduled), countStanding: s.text(countStanding),
		selectSwitch: s.text(selectSwitch), upsertSwitch: s.text(upsertSwitch), selectSwitches: s.text(selectSwitches), selectHosts: s.text(selectHosts),
		endSwitch: s.text(endSwitch), selectSettings: s.text(selectSettings),
		lockToQuiet: s.text(lockToQuiet), quietHost: s.text(quietHost), lockToDrain: s.text(lockToDrain), drainHost: s.text(drainHost),
		countParked: s.text(countParked), upsertLimit: s.text(upsertLimit), stateLimits: s.text(stateLimits), deleteLimit: s.text(deleteLimit),
		standBack: s.text(standBack), lookAtKind: s.text(lookAtKind), countLines: s.text(countLines),
		selectSinkHost: s.text(selectSinkHost), deleteSink: s.text(deleteSink),
		registerSinks: s.text(registerSinks), anyStaleSink: s.text(anyStaleSink), selectInfos: s.text(selectInfos), noteSinks: s.text(noteSinks), retireSinks: s.text(retireSinks),
		dropFreshAlerts: s.text(dropFreshAlerts), dropToldAlerts: s.text(dropToldAlerts), dropMessages: s.text(dropMessages),
		runNow: s.text(runNow), deleteJobs: s.text(deleteJobs), lockToCancel: s.text(lockToCancel), markCancelled: s.text(markCancelled), removeFree: s.text(removeFree),
		alertStatements: newAlertStatements(s), operationStatements: newOperationStatements(s),
	}
}
