package sqlite

import "golang.org/x/sys/unix"

// networks are the file systems that do not keep what SQLite asks for, by their numbers in statfs(2).
var networks = map[int64]string{0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "SMB", 0xfe534d42: "SMB", 0x01021997: "9P", 0x5346414f: "AFS"}

func diskOf(folder string) (disk, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return disk{}, err
	}
	return disk{free: int64(s.Bavail) * int64(s.Bsize), network: networks[int64(uint32(s.Type))]}, nil
}
