// Package people says who looks at the console, and what they may see and do there.
package people

import (
	"context"
	"slices"
)

// Role is what a person may see and do; each may what those before it may.
type Role string

const (
	Viewer   Role = "viewer"   // sees all that goes on, and changes nothing
	Grader   Role = "grader"   // grades, and does what there is to do about jobs of the own user, whose texts it sees
	Operator Role = "operator" // does so for all users
)

// Roles are all of them, from the one that may the least.
var Roles = []Role{Viewer, Grader, Operator}

// May reports whether the role has all rights of another one. An empty one has none.
func (r Role) May(what Role) bool {
	return slices.Index(Roles, r) >= slices.Index(Roles, what) && slices.Contains(Roles, what)
}

// Person is who looks: the name of the token, whose jobs that submits, and what it may.
type Person struct {
	Name, User string
	Role       Role
	Models     []string // that may be asked; all if there are none
}

// Is reports whether both are the same person.
func (p Person) Is(other Person) bool { return p.Name == other.Name && p.User == other.User }

// MayTouch reports whether the person may do something about the jobs of a user, and see their texts.
func (p Person) MayTouch(user string) bool {
	return p.Role.May(Operator) || p.Role.May(Grader) && p.User == user
}

type key struct{}

// With gives a request's context the person that asks.
func With(ctx context.Context, p Person) context.Context { return context.WithValue(ctx, key{}, p) }

// From is the person that asks; one that may nothing if nobody said who it is.
func From(ctx context.Context) Person {
	p, _ := ctx.Value(key{}).(Person)
	return p
}
