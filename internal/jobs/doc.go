// Package jobs is the contract between everything that speaks about a job: the
// records that travel through the queue and their strict JSON form, the names of
// subjects, the classes of errors, and the shape of one delivery.
//
// It guarantees that a record that was decoded is valid, that fields a newer
// version added survive a hop through an older one, and that every name that ends
// up in a NATS subject is safe there and can be read back. It imports the standard
// library and uuid only, so that any program can use it.
package jobs

//go:generate go run ./schemagen ../../docs/schemas
