package classify

import (
	"reflect"

	"github.com/pawljobs/pawl"
)

// SQLState returns the class of a PostgreSQL error code (its appendix A), five characters.
//
// Transient: 08 connection, 40 rollback (serialization, deadlock), 53 resources, 55P03 lock not available, 57014 query
// cancelled, 57P01-57P05 shutdown and idle timeouts, 58 system errors. Permanent: 22 data, 23502 not null, 23505
// unique, 23514 check, 42601 syntax. All others say nothing: 42P01, undefined table, may be a deploy that is under way.
func SQLState(code string) pawl.Class {
	if len(code) != 5 {
		return pawl.ClassUnknown
	}
	switch code {
	case "55P03", queryCancelled, "57P01", "57P02", "57P03", "57P04", "57P05":
		return pawl.ClassTransient
	case "23502", "23505", "23514", "42601":
		return pawl.ClassPermanent
	}
	switch code[:2] {
	case "08", "40", "53", "58":
		return pawl.ClassTransient
	case "22":
		return pawl.ClassPermanent
	}
	return pawl.ClassUnknown
}

// queryCancelled is what a server answers when a statement ran out of its timeout, or when a client cancelled it.
const queryCancelled = "57014"

type sqlStater interface{ SQLState() string }

// Postgres knows errors with a method SQLState() string, as those of jackc/pgx and lib/pq have. In a Chain, 57014 says
// nothing where the same chain holds context.Canceled: then it was our own cancel.
func Postgres(err error) pawl.Class {
	if e, ok := err.(sqlStater); ok {
		return SQLState(e.SQLState())
	}
	return pawl.ClassUnknown
}

// isQueryCancelled is called for errors that a rule has just looked at.
func isQueryCancelled(err error) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	e, ok := err.(sqlStater)
	return ok && e.SQLState() == queryCancelled
}

// SQLiteCode returns the class of an SQLite result code, primary or extended: BUSY, LOCKED, IOERR and FULL are
// transient, TOOBIG, CONSTRAINT and MISMATCH permanent.
func SQLiteCode(code int) pawl.Class {
	switch code & 0xff {
	case 5, 6, 10, 13: // BUSY, LOCKED, IOERR, FULL
		return pawl.ClassTransient
	case 18, 19, 20: // TOOBIG, CONSTRAINT, MISMATCH
		return pawl.ClassPermanent
	}
	return pawl.ClassUnknown
}

// SQLite knows the errors of modernc.org/sqlite, by their method Code() int: many other libraries have one of that
// name, so the package is compared too. For mattn/go-sqlite3 and zombiezen.com/go/sqlite, whose errors have no such
// method, add a rule:
//
//	classify.On(func(e sqlite3.Error) pawl.Class { return classify.SQLiteCode(int(e.ExtendedCode)) })
//	func(err error) pawl.Class { return classify.SQLiteCode(int(sqlite.ErrCode(err))) } // zombiezen
func SQLite(err error) pawl.Class {
	e, ok := err.(interface{ Code() int })
	if !ok {
		return pawl.ClassUnknown
	}
	if t := reflect.TypeOf(err); t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "modernc.org/sqlite" {
		return SQLiteCode(e.Code())
	}
	return pawl.ClassUnknown
}

// SQLServerNumber returns the class of an error number of SQL Server or Azure SQL. All that it knows is transient:
// 1205 deadlock, 1222 lock timeout, 40197, 40501, 40613, 49918-49920 and 4060 a database that is moving or busy, 10928
// and 10929 resource limits, 233, 10053, 10054 and 10060 broken connections.
func SQLServerNumber(number int) pawl.Class {
	switch number {
	case 1205, 1222, 40197, 40501, 40613, 49918, 49919, 49920, 4060, 10928, 10929, 233, 10053, 10054, 10060:
		return pawl.ClassTransient
	}
	return pawl.ClassUnknown
}

// SQLServer knows errors with a method SQLErrorNumber() int32, as those of microsoft/go-mssqldb have.
func SQLServer(err error) pawl.Class {
	if e, ok := err.(interface{ SQLErrorNumber() int32 }); ok {
		return SQLServerNumber(int(e.SQLErrorNumber()))
	}
	return pawl.ClassUnknown
}

// MySQLNumber returns the class of an error number of MySQL or MariaDB. All that it knows is transient: 1205 lock timeout, 1213
// deadlock, 2006 and 2013 lost connections, 1040 too many connections. The driver's errors have no method to know them
// by, so name them:
//
//	classify.On(func(e *mysql.MySQLError) pawl.Class { return classify.MySQLNumber(e.Number) })
func MySQLNumber(number uint16) pawl.Class {
	switch number {
	case 1205, 1213, 2006, 2013, 1040:
		return pawl.ClassTransient
	}
	return pawl.ClassUnknown
}
