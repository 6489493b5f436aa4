package submitter

// adminCmd sets an installation up.
type adminCmd struct {
	Secure adminSecureCmd `cmd:"" help:"Make the keys, the certificates and the rights of a NATS server."`
	Grader adminGraderCmd `cmd:"" help:"Let users submit jobs, or no longer."`
	Init   adminInitCmd   `cmd:"" help:"Create the streams, buckets and consumers, and set right what differs."`
}
