package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
)

// lists are the long parameters of statements. pgx boxes and looks up each of their elements, which is a good part of what an
// enqueue or a settlement costs this process.
var lists = []listPlan{
	listOf[idList, pawl.ID]{pgtype.UUIDArrayOID, pgtype.UUIDOID, 16, func(b []byte, id pawl.ID) []byte { return append(b, id[:]...) }},
	listOf[tidList, pgtype.TID]{pgtype.TIDArrayOID, pgtype.TIDOID, 6, func(b []byte, tid pgtype.TID) []byte {
		return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(b, tid.BlockNumber), tid.OffsetNumber)
	}},
	byteaList{},
	listOf[[]int64, int64]{pgtype.Int8ArrayOID, pgtype.Int8OID, 8, func(b []byte, n int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(n)) }},
	listOf[[]int32, int32]{pgtype.Int4ArrayOID, pgtype.Int4OID, 4, func(b []byte, n int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }},
	listOf[[]int16, int16]{pgtype.Int2ArrayOID, pgtype.Int2OID, 2, func(b []byte, n int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }},
}

type listPlan interface {
	pgtype.EncodePlan
	oid() uint32
	fits(value any) bool
}

// encodeListsWhole has a connection write lists in one go.
func encodeListsWhole(types *pgtype.Map) {
	for _, plan := range lists {
		if known, ok := types.TypeForOID(plan.oid()); ok {
			types.RegisterType(&pgtype.Type{Name: known.Name, OID: known.OID, Codec: listCodec{known.Codec, plan}})
		}
	}
}

type listCodec struct {
	pgtype.Codec
	plan listPlan
}

func (c listCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode && c.plan.fits(value) {
		return c.plan
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

// listOf writes lists whose elements are all of one size, and none of them null.
type listOf[L ~[]E, E any] struct {
	array, element uint32
	size           int
	write          func([]byte, E) []byte
}

func (l listOf[L, E]) oid() uint32 { return l.array }

func (l listOf[L, E]) fits(value any) bool {
	_, ok := value.(L)
	return ok
}

func (l listOf[L, E]) Encode(value any, buf []byte) ([]byte, error) {
	elements := value.(L)
	buf = appendArray(buf, l.element, len(elements), len(elements)*l.size)
	for _, e := range elements {
		buf = l.write(binary.BigEndian.AppendUint32(buf, uint32(l.size)), e)
	}
	return buf, nil
}

// byteaList writes lists of bytes, none of them null.
type byteaList struct{}

func (byteaList) oid() uint32 { return pgtype.ByteaArrayOID }

func (byteaList) fits(value any) bool {
	list, ok := value.([][]byte)
	return ok && list != nil && !slices.ContainsFunc(list, func(b []byte) bool { return b == nil })
}

func (byteaList) Encode(value any, buf []byte) ([]byte, error) {
	elements, size := value.([][]byte), 0
	for _, e := range elements {
		size += len(e)
	}
	buf = appendArray(buf, pgtype.ByteaOID, len(elements), size)
	for _, e := range elements {
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(e))), e...)
	}
	return buf, nil
}

// appendArray begins the binary form of an array: the number of dimensions, whether there are nulls, the elements' type, length
// and lower bound, after which each element follows its size. See array_recv in PostgreSQL's sources. Size is that of all elements.
func appendArray(buf []byte, element uint32, n, size int) []byte {
	buf = slices.Grow(buf, 20+4*n+size)
	for _, field := range []uint32{1, 0, element, uint32(n), 1} {
		buf = binary.BigEndian.AppendUint32(buf, field)
	}
	return buf
}
