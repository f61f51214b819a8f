package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
)

// Lists are sent as pgx would send them.
func TestListsAreWritten(t *testing.T) {
	t.Parallel()
	plain, ours := pgtype.NewMap(), pgtype.NewMap()
	encodeListsWhole(ours)
	for oid, values := range map[uint32][]any{
		pgtype.UUIDArrayOID:  {idList{pawl.NewID(), {}, pawl.NewID()}, idList{}, idList(nil), [][16]byte{{1}}},
		pgtype.TIDArrayOID:   {tidList{{BlockNumber: 1 << 20, OffsetNumber: 226, Valid: true}, {OffsetNumber: 1, Valid: true}}, tidList{}, tidList(nil)},
		pgtype.Int8ArrayOID:  {[]int64{1, -1, 1 << 62}, []int64{}, []int64(nil), []int32{7}, []int{3}},
		pgtype.Int4ArrayOID:  {[]int32{1, -1, 1 << 30}, []int32{}, []int32(nil), []int64{7}},
		pgtype.Int2ArrayOID:  {[]int16{1, -1, 1 << 14}, []int16{}, []int16(nil), []int64{7}},
		pgtype.ByteaArrayOID: {[][]byte{{1, 2}, nil, {}}, [][]byte{{1, 2}, {}, {3}}, [][]byte{}, [][]byte(nil)},
	} {
		for _, value := range values {
			for _, format := range []int16{pgtype.BinaryFormatCode, pgtype.TextFormatCode} {
				want, wantErr := plain.Encode(oid, format, value, []byte("before"))
				got, err := ours.Encode(oid, format, value, []byte("before"))
				if err != nil || wantErr != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
					t.Errorf("%d, format %d, %v: %x, %v, wanted %x, %v", oid, format, value, got, err, want, wantErr)
				}
			}
		}
	}
}
