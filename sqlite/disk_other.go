//go:build !linux

package sqlite

import "errors"

func diskOf(string) (disk, error) { return disk{}, errors.ErrUnsupported }
