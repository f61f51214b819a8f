// Package classify says of the errors of the outside world whether trying again can help: HTTP, networks and TLS, SMTP,
// PostgreSQL, SQLite, SQL Server, MySQL.
//
// A host asks it about errors whose handler said nothing itself:
//
//	host.Config{Classifiers: []pawl.Classifier{classify.Default()}}
//
// It says permanent only where it is sure, since a wrong permanent kills a job that a retry would have saved, while a
// wrong transient costs a bounded number of tries. What it does not know it leaves to the next classifier, and in the
// end to the default, which is to retry.
//
// A Rule looks at one error. Chain asks rules about every error of a chain, wrapped and joined ones too. Your own rules
// come first:
//
//	classify.Default(
//		classify.On(func(e *mysql.MySQLError) pawl.Class { return classify.MySQLNumber(e.Number) }),
//		classify.On(func(e sqlite3.Error) pawl.Class { return classify.SQLiteCode(int(e.ExtendedCode)) }), // mattn/go-sqlite3
//		classify.On(func(e *smtp.SMTPError) pawl.Class { return classify.SMTPCode(e.Code) }),             // emersion/go-smtp
//		classify.On(func(e *billing.Refusal) pawl.Class { return pawl.ClassPermanent }),
//	)
//
// No driver is imported: their errors are known by their methods, or are handed to the table of their codes as above.
//
// Response turns an HTTP response into an error that has its class, and an excerpt of the body, already.
//
// docs/retries.md has the tables.
package classify
