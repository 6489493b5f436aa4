// Command hello says one line.
package main

import "fmt"

func main() {
	fmt.Println("hello, " + "world")
}
