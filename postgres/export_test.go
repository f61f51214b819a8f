package postgres

// ChannelOf is the channel on which a schema's handles hear each other.
func ChannelOf(schema string) string {
	s, err := newSchema(schema)
	if err != nil {
		panic(err)
	}
	return s.channel
}
