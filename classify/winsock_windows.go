package classify

import "syscall"

// isWinsockErrno knows the numbers that Windows gives where others give ECONNREFUSED and its like, which package
// syscall only imitates there.
func isWinsockErrno(e syscall.Errno) bool {
	switch e {
	case 10050, 10051, 10052, // WSAENETDOWN, WSAENETUNREACH, WSAENETRESET
		10053, 10054, 10060, 10061, // WSAECONNABORTED, WSAECONNRESET, WSAETIMEDOUT, WSAECONNREFUSED
		10064, 10065: // WSAEHOSTDOWN, WSAEHOSTUNREACH
		return true
	}
	return false
}
