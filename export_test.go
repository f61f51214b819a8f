package pawl

import (
	"encoding/binary"
	"hash/crc32"
)

// AppendUnknownField adds a field to an encoded envelope, as a later release might.
func AppendUnknownField(stored []byte, field uint64, value []byte) []byte {
	w := fieldWriter(append([]byte{}, stored[:len(stored)-4]...))
	w.bytes(field, value)
	return Checksummed(w)
}

// Checksummed ends body with the checksum that makes it pass for undamaged.
func Checksummed(body []byte) []byte {
	return binary.LittleEndian.AppendUint32(append([]byte{}, body...), crc32.Checksum(body, castagnoli))
}
