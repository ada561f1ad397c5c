import java.sql.DriverManager;
import java.sql.SQLException;

/** Makes the empty database that the server would make at its first start, for which it allows itself ten seconds only. */
class Database {
    public static void main(String[] args) throws SQLException {
        String url = "jdbc:derby:" + args[0];
        DriverManager.getConnection(url + ";create=true", "nacos", "nacos").close();
        try {
            DriverManager.getConnection(url + ";shutdown=true", "nacos", "nacos");
        } catch (SQLException e) {
            if (!"08006".equals(e.getSQLState())) { // how Derby says that it is down
                throw e;
            }
        }
    }
}
